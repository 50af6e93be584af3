import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;

/**
 * A server with a thread for each connection, and a client with many threads that fetch from it: `Crowd serve ADDRESS PORT FILE`,
 * `Crowd fetch ADDRESS PORT THREADS`. The client prints a sum of what each thread got; the last of them uses NIO with a selector.
 */
class Crowd {
    public static void main(String[] words) throws Exception {
        InetAddress address = InetAddress.getByName(words[1]);
        int port = Integer.parseInt(words[2]);
        if (words[0].equals("serve")) {
            serve(address, port, Files.readAllBytes(Path.of(words[3])));
        } else {
            fetch(address, port, Integer.parseInt(words[3]));
        }
    }

    static void serve(InetAddress address, int port, byte[] data) throws IOException {
        ExecutorService threads = Executors.newCachedThreadPool();
        try (ServerSocket server = new ServerSocket(port, 100, address)) {
            while (true) {
                Socket client = server.accept();
                threads.submit(() -> {
                    try (client; DataInputStream in = new DataInputStream(client.getInputStream())) {
                        int from = in.readInt();
                        client.getOutputStream().write(data, from, data.length - from);
                    } catch (IOException error) {
                        System.err.println(error);
                    }
                });
            }
        }
    }

    static void fetch(InetAddress address, int port, int count) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<String>> sums = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            int from = number;
            sums.add(threads.submit(() -> from == count - 1 ? selected(address, port, from) : blocking(address, port, from)));
        }
        for (Future<String> sum : sums) {
            System.out.println(sum.get());
        }
        threads.shutdown();
    }

    static String blocking(InetAddress address, int port, int from) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        try (Socket socket = new Socket(address, port)) {
            new DataOutputStream(socket.getOutputStream()).writeInt(from);
            InputStream in = socket.getInputStream();
            byte[] piece = new byte[16384];
            for (int got; (got = in.read(piece)) > 0; ) {
                digest.update(piece, 0, got);
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    static String selected(InetAddress address, int port, int from) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        try (Selector selector = Selector.open(); SocketChannel channel = SocketChannel.open()) {
            channel.configureBlocking(false);
            channel.connect(new InetSocketAddress(address, port));
            channel.register(selector, SelectionKey.OP_CONNECT);
            ByteBuffer piece = ByteBuffer.allocateDirect(16384);
            while (true) {
                selector.select();
                selector.selectedKeys().clear();
                if (channel.isConnectionPending()) {
                    channel.finishConnect();
                    channel.write(ByteBuffer.allocate(4).putInt(from).flip());
                    channel.keyFor(selector).interestOps(SelectionKey.OP_READ);
                    continue;
                }
                int got = channel.read(piece.clear());
                if (got < 0) {
                    return HexFormat.of().formatHex(digest.digest());
                }
                digest.update(piece.flip());
            }
        }
    }
}
