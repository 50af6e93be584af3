import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.SocketTimeoutException;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;

/** As elect.py; it draws as java.util.Random does by itself, from System.nanoTime(). */
public class Elect {
    static final int PORT = 7000;
    static final Random drawn = new Random();
    static DatagramSocket talk;
    static String name;
    static int term = 0;

    static long now() {
        return System.nanoTime() / 1000;
    }

    static long patience() {
        return now() + 150_000 + 1000 * drawn.nextInt(150);
    }

    static void tell(String word, String... to) throws Exception {
        byte[] text = (word + " " + term + " " + name).getBytes();
        for (String peer : to) {
            talk.send(new DatagramPacket(text, text.length, InetAddress.getByName(peer), PORT));
        }
    }

    public static void main(String[] words) throws Exception {
        name = words[0];
        String[] peers = Arrays.copyOfRange(words, 1, words.length);
        talk = new DatagramSocket(PORT);
        long begun = now(), known = 0, next = patience();
        String voted = null, leader = null;
        Set<String> votes = new HashSet<>();
        while (now() < begun + 20_000_000) {
            if (known > 0 && now() > known + 2_000_000) {
                System.out.println("leader " + leader);
                return;
            }
            DatagramPacket packet = new DatagramPacket(new byte[100], 100);
            try {
                talk.setSoTimeout((int) Math.max(1, (next - now() + 999) / 1000));
                talk.receive(packet);
            } catch (SocketTimeoutException nobody) {
                if (name.equals(leader)) {
                    tell("lead", peers);
                    next = now() + 50_000;
                } else {
                    term += 1;
                    voted = name;
                    leader = null;
                    votes = new HashSet<>(Set.of(name));
                    next = patience();
                    tell("vote", peers);
                }
                continue;
            }
            String[] said = new String(packet.getData(), 0, packet.getLength()).split(" ");
            int other = Integer.parseInt(said[1]);
            if (other > term) {
                term = other;
                voted = null;
                leader = null;
                votes = new HashSet<>();
            }
            if (other < term) {
                continue;
            }
            if (said[0].equals("vote") && (voted == null || voted.equals(said[2]))) {
                voted = said[2];
                next = patience();
                tell("yes", said[2]);
            } else if (said[0].equals("yes")) {
                votes.add(said[2]);
                if (leader == null && votes.size() > (peers.length + 1) / 2) {
                    leader = name;
                    known = known > 0 ? known : now();
                    next = now();
                }
            } else if (said[0].equals("lead")) {
                leader = said[2];
                known = known > 0 ? known : now();
                next = patience();
            }
        }
        System.out.println("nobody leads after " + term + " terms");
        System.exit(1);
    }
}
