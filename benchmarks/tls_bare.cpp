#include "benchmarks/tls_bare.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "core/base/digest.h"

namespace fedqueue::benchmark {
namespace {

constexpr std::size_t buffer_bytes = 256u << 10;

std::string cipher_used;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "bare TLS: %s failed\n", what);
  ERR_print_errors_fp(stderr);
  std::exit(1);
}

void need(bool good, const char* what) {
  if (!good) give_up(what);
}

struct Socket {
  int fd = -1;
  ~Socket() { ::close(fd); }
};

// Two connected ends on loopback.
void connect_pair(Socket& one, Socket& other) {
  Socket listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  need(::bind(listener.fd, generic, length) == 0 && ::listen(listener.fd, 1) == 0, "listen");
  ::getsockname(listener.fd, generic, &length);
  one.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  need(::connect(one.fd, generic, length) == 0, "connect");
  other.fd = ::accept(listener.fd, nullptr, nullptr);
  need(other.fd >= 0, "accept");
  const int on = 1;
  ::setsockopt(one.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(other.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;
using Session = std::unique_ptr<SSL, void (*)(SSL*)>;

Context make_context(const SSL_METHOD* method, const BareFiles& files) {
  Context context(SSL_CTX_new(method), SSL_CTX_free);
  need(context != nullptr, "SSL_CTX_new");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_default_read_buffer_len(context.get(), 64u << 10);
  need(SSL_CTX_load_verify_file(context.get(), files.ca.c_str()) == 1, "the CA");
  if (!files.certificate.empty()) {
    need(SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) == 1,
         "the certificate");
    need(SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) == 1,
         "the key");
  }
  return context;
}

void send_file(SSL* ssl, int fd) {
  std::vector<std::byte> buffer(buffer_bytes);
  for (;;) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    need(count >= 0, "read");
    if (count == 0) break;
    need(SSL_write(ssl, buffer.data(), static_cast<int>(count)) == count, "SSL_write");
  }
  SSL_shutdown(ssl);
}

void receive(SSL* ssl, const std::function<void(std::span<const std::byte>)>& take) {
  std::vector<std::byte> buffer(buffer_bytes);
  for (;;) {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      std::size_t count = 0;
      if (SSL_read_ex(ssl, buffer.data() + filled, buffer.size() - filled, &count) != 1) break;
      filled += count;
    }
    if (filled == 0) return;
    take(std::span<const std::byte>(buffer).first(filled));
    if (filled < buffer.size()) return;
  }
}

double transfer(const BareFiles& files, const std::filesystem::path& source,
                const std::function<void(SSL*)>& receiver) {
  Socket client_end;
  Socket server_end;
  connect_pair(client_end, server_end);
  const Context server_context = make_context(TLS_server_method(), files);
  const Context client_context = make_context(TLS_client_method(), BareFiles{files.ca, {}, {}});
  const Session server(SSL_new(server_context.get()), SSL_free);
  const Session client(SSL_new(client_context.get()), SSL_free);
  SSL_set_fd(server.get(), server_end.fd);
  SSL_set_fd(client.get(), client_end.fd);
  std::thread accepting([&] { need(SSL_accept(server.get()) == 1, "SSL_accept"); });
  need(SSL_connect(client.get()) == 1, "SSL_connect");
  accepting.join();
  cipher_used = SSL_get_cipher(server.get());
  const int fd = ::open(source.c_str(), O_RDONLY | O_CLOEXEC);
  need(fd >= 0, "open");
  const auto start = std::chrono::steady_clock::now();
  std::thread sending([&] { send_file(client.get(), fd); });
  receiver(server.get());
  const auto end = std::chrono::steady_clock::now();
  sending.join();
  ::close(fd);
  return std::chrono::duration<double>(end - start).count();
}

template <typename Digest>
std::function<void(SSL*)> store_to(const std::filesystem::path& target) {
  return [target](SSL* ssl) {
    const int fd = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    need(fd >= 0, "open");
    Digest digest;
    receive(ssl, [&](std::span<const std::byte> bytes) {
      digest.update(bytes);
      need(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "write");
    });
    need(!digest.hex().empty() && ::fsync(fd) == 0, "fsync");
    ::close(fd);
  };
}

}  // namespace

double bare_upload(const BareFiles& files, const std::filesystem::path& source,
                   const std::filesystem::path& target) {
  return transfer(files, source, store_to<Xxh128>(target));
}

double bare_download(const BareFiles& files, const std::filesystem::path& source) {
  return transfer(files, source, [](SSL* ssl) { receive(ssl, [](std::span<const std::byte>) {}); });
}

double bare_download_to_file(const BareFiles& files, const std::filesystem::path& source,
                             const std::filesystem::path& target) {
  return transfer(files, source, store_to<Sha256>(target));
}

std::string bare_cipher() { return cipher_used; }

}  // namespace fedqueue::benchmark
