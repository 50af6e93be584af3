"""Programs with a window beside the browsers: a remote desktop, and mail in a terminal."""

from __future__ import annotations

import email.message

from harness import paths
from harness.processes import PATIENCE
from programs.stage import Stage, want, want_equal

from .screen import Screen, keep, part_of

# Of the desktop that is looked at from afar.
COLOUR = "#c04060"
VNC_PORT, SMTP_PORT, IMAP_PORT = 5901, 2525, 1143
SECONDS_MAX = 40 * PATIENCE
# mutt's colour of the lines about attachments.
MUTT_ATTACHMENT = "#ffff00"
NAME, PASSWORD, SUBJECT = "reader", "secret", "Over weft"


def vnc(stage: Stage, row: str) -> str:
    """A viewer under weft shows a desktop that is beyond."""
    env, picture = stage.env, stage.env.folder / "window.png"
    words = [paths.tool("Xtigervnc"), ":77", "-rfbport", str(VNC_PORT), "-SecurityTypes", "None", "-geometry", "640x480", "-nolisten", "local", "-interface", stage.server.address]
    stage.start_server("desktop", words, VNC_PORT)
    env.run("colour", [paths.tool("xsetroot"), "-solid", COLOUR], DISPLAY=":77")
    screen = Screen(env)
    viewer = env.start("viewer", [*stage.client.words, paths.tool("xtigervncviewer"), f"{stage.server.host}::{VNC_PORT}"], DISPLAY=screen.display)

    def seen() -> bool:
        screen.picture(picture)
        return part_of(picture, COLOUR) > 0.3

    viewer.wait_for(seen, "the desktop's colour", SECONDS_MAX)
    keep(picture, row)
    viewer.stop()
    stage.finish()
    return f"{part_of(picture, COLOUR):.0%} of the screen"


DOVECOT = """
protocols = imap
listen = {address}
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail
first_valid_uid = 1
default_internal_user = {owner}
default_login_user = {owner}
default_internal_group = {group}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={owner} gid={group} home={folder}
}}
"""
MUTTRC = """
set folder = "imap://{name}:{password}@{host}:{imap}/"
set spoolfile = "imap://{name}:{password}@{host}:{imap}/INBOX"
set smtp_url = "smtp://{host}:{smtp}/"
set from = "{name}@weft.test"
set ssl_starttls = no
set ssl_force_tls = no
set copy = no
set confirmappend = no
set confirmcreate = no
set delete = no
set certificate_file = ""
unset wait_key
"""


def mail(stage: Stage, row: str) -> str:
    """A letter with an attachment is sent by SMTP, and read by IMAP in a window."""
    env, picture, folder = stage.env, stage.env.folder / "window.png", stage.env.folder / "post"
    folder.mkdir()
    for part in ("cur", "new", "tmp"):
        (folder / "mail" / part).mkdir(parents=True)
    words = [paths.PYTHON, "-m", "aiosmtpd", "--nosetuid", "--listen", f"{stage.server.host}:{SMTP_PORT}", "--class", "aiosmtpd.handlers.Mailbox", str(folder / "mail")]
    stage.start_server("smtp", words, SMTP_PORT)
    (folder / "dovecot.conf").write_text(DOVECOT.format(address=stage.server.address, folder=folder, port=IMAP_PORT, password=PASSWORD, owner="nobody", group="nogroup"))
    env.run("owner", ["chown", "-R", "nobody:nogroup", str(folder / "mail")])
    stage.start_server("imap", [paths.tool("dovecot"), "-F", "-c", str(folder / "dovecot.conf")], IMAP_PORT)
    rc = folder / "muttrc"
    rc.write_text(MUTTRC.format(name=NAME, password=PASSWORD, host=stage.server.host, imap=IMAP_PORT, smtp=SMTP_PORT))
    text = folder / "letter"
    text.write_text("A letter that was written in a terminal.\n")
    attached = stage.shared.small.path
    stage.run_client("send", [paths.tool("mutt"), "-F", str(rc), "-s", SUBJECT, "-a", str(attached), "--", f"{NAME}@weft.test"], stdin=text, HOME=str(folder))
    env.run("owner-again", ["chown", "-R", "nobody:nogroup", str(folder / "mail")])
    (letter,) = list((folder / "mail" / "new").iterdir())
    parts = email.message_from_bytes(letter.read_bytes())
    want_equal("what came", parts.get_payload()[1].get_payload(decode=True), attached.read_bytes())
    screen = Screen(env)
    terminal = [paths.tool("xterm"), "-geometry", "100x30", "-bg", "#102030", "-fg", "#ffffff", "-title", "mail", "-e", *stage.client.words, paths.tool("mutt"), "-F", str(rc),
                "-e", "push <display-message><exit><sync-mailbox><display-message>"]
    window = env.start("mail", terminal, DISPLAY=screen.display, HOME=str(folder), TERM="xterm")
    # It is marked as read, on the server, and shown again.
    window.wait_for(lambda: any(file.name.endswith("S") for file in (folder / "mail" / "cur").iterdir()), "the letter read", SECONDS_MAX)

    def seen() -> bool:
        screen.picture(picture)
        return part_of(picture, MUTT_ATTACHMENT) > 0

    window.wait_for(seen, "the letter in its window", SECONDS_MAX)
    keep(picture, row)
    window.stop()
    stage.finish()
    return ""
