//! bash, which parts words at `=` and `:`. Ours hold them (`ether:lower`, `delay=20ms`): the script puts such words together again before it asks, and takes
//! away from what is offered what bash takes to be written already.

use clap_complete::env::{Bash as Theirs, EnvCompleter};
use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

/// bash.
pub struct Bash;

const SCRIPT: &str = r#"_BIN() {
    local word before joins=''
    local -a words=() offered=()
    local -i index=-1 number=-1
    for word in "${COMP_WORDS[@]}"; do
        number+=1
        if ((number == COMP_CWORD)) && [[ $word != [=:] ]]; then
            word=$2
            # Behind a space a new word begins.
            [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && joins=''
        fi
        if [[ $word == [=:] && $index -ge 0 ]]; then
            words[index]+=$word
            joins=yes
        elif [[ $joins ]]; then
            words[index]+=$word
            joins=''
        else
            index+=1
            words[index]=$word
        fi
        ((number == COMP_CWORD)) && break
    done
    before=${words[index]%"$2"}
    IFS=$'\013' read -r -d '' -a offered < <(
        _CLAP_IFS=$'\013' _CLAP_COMPLETE_INDEX=$index VARIABLE=bash COMPLETER -- "${words[@]}" 2>/dev/null
    )
    COMPREPLY=("${offered[@]#"$before"}")
    if [[ ${COMPREPLY-} == *[=/:.] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _BIN BIN 2>/dev/null || complete -F _BIN BIN
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        Theirs.name()
    }
    fn is(&self, name: &str) -> bool {
        Theirs.is(name)
    }
    fn write_registration(&self, variable: &str, _: &str, bin: &str, completer: &str, to: &mut dyn Write) -> Result<(), Error> {
        write!(to, "{}", SCRIPT.replace("VARIABLE", variable).replace("COMPLETER", completer).replace("BIN", bin))
    }
    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        to: &mut dyn Write,
    ) -> Result<(), Error> {
        Theirs.write_complete(command, words, folder, to)
    }
}
