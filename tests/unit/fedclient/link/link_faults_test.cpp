// Every way in which a connection fails has its own code, says what was expected and what was got,
// and is not tried again when that cannot help.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/protocol/upload.h"
#include "fedclient/link/faults.h"
#include "fedclient/link/proxy.h"
#include "tests/unit/fedclient/link/link_fixture.h"

namespace fedqueue::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class LinkFaults : public LinkFixture {
 protected:
  void serve_nothing_but_ok() {
    serve([](const HttpRequest&) { return HttpReply{200, {}, "{}", std::string::npos}; });
  }
  Error error_of(const LinkConfig& with) {
    Result<std::unique_ptr<Link>> link = Link::create(with);
    if (!link) return link.error();
    Result<std::string> answer = (*link)->status_json();
    EXPECT_FALSE(answer);
    return answer ? Error{} : answer.error();
  }
  Error error_of_server() { return error_of(config(server_->port())); }
};

TEST_F(LinkFaults, AnotherAuthority) {
  const Identity other = make_authority("Some other CA");
  server_identity_ = make_certificate(other, server_wanted());
  serve_nothing_but_ok();
  const Error error = error_of_server();
  EXPECT_EQ(error.code, Code::tls_untrusted) << error.message;
  EXPECT_THAT(error.message, HasSubstr("Some other CA"));
  EXPECT_THAT(error.message, HasSubstr("FedQueue test CA"));
  EXPECT_EQ(server_->connections(), 1);
  EXPECT_FALSE(may_pass(error.code));
}

TEST_F(LinkFaults, AnotherName) {
  Wanted wanted = server_wanted();
  wanted.names = "DNS:fed.example.org,IP:10.1.2.3";
  server_identity_ = make_certificate(authority_, wanted);
  serve_nothing_but_ok();
  const Error error = error_of_server();
  EXPECT_EQ(error.code, Code::tls_name) << error.message;
  EXPECT_THAT(error.message, HasSubstr("fed.example.org, 10.1.2.3"));
  EXPECT_THAT(error.message, HasSubstr("'localhost'"));
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(LinkFaults, AnExpiredServer) {
  Wanted wanted = server_wanted();
  wanted.valid_from_s = -7200;
  wanted.valid_to_s = -3600;
  server_identity_ = make_certificate(authority_, wanted);
  serve_nothing_but_ok();
  const Error error = error_of_server();
  EXPECT_EQ(error.code, Code::tls_expired) << error.message;
  EXPECT_THAT(error.message, HasSubstr("was valid until"));
}

TEST_F(LinkFaults, AServerOfTheFuture) {
  Wanted wanted = server_wanted();
  wanted.valid_from_s = 3600;
  server_identity_ = make_certificate(authority_, wanted);
  serve_nothing_but_ok();
  const Error error = error_of_server();
  EXPECT_EQ(error.code, Code::tls_expired) << error.message;
  EXPECT_THAT(error.message, HasSubstr("not valid before"));
}

TEST_F(LinkFaults, AClientCertificateInTheServersPlace) {
  Wanted wanted = server_wanted();
  wanted.extended_usage = "clientAuth";
  server_identity_ = make_certificate(authority_, wanted);
  serve_nothing_but_ok();
  EXPECT_EQ(error_of_server().code, Code::tls);
}

TEST_F(LinkFaults, OurOwnCertificateOfAnotherAuthority) {
  const Identity other = make_authority("Some other CA");
  use_client(client_wanted(), &other);
  serve_nothing_but_ok();
  const Error error = error_of_server();
  EXPECT_EQ(error.code, Code::tls_untrusted) << error.message;
  EXPECT_THAT(error.message, HasSubstr("Some other CA"));
}

TEST_F(LinkFaults, OurOwnExpiredCertificate) {
  Wanted wanted = client_wanted();
  wanted.valid_from_s = -7200;
  wanted.valid_to_s = -3600;
  use_client(wanted);
  serve_nothing_but_ok();
  const Error error = error_of_server();
  EXPECT_EQ(error.code, Code::tls_expired) << error.message;
  EXPECT_THAT(error.message, HasSubstr("site-a"));
}

TEST_F(LinkFaults, AServerWithoutTls) {
  HttpServer plain(nullptr, nullptr, [](const HttpRequest&) { return HttpReply(); });
  const Error error = error_of(config(plain.port()));
  EXPECT_EQ(error.code, Code::plaintext) << error.message;
  EXPECT_EQ(plain.connections(), 1);
}

TEST_F(LinkFaults, AUrlWithoutTls) {
  LinkConfig with = config(1);
  with.server_url = "http://localhost:8443";
  EXPECT_EQ(error_of(with).code, Code::plaintext);
  with.server_url = "https://localhost:8443/v1";
  EXPECT_EQ(error_of(with).code, Code::usage);
  with.server_url = "localhost:8443";
  EXPECT_EQ(error_of(with).code, Code::usage);
}

TEST_F(LinkFaults, NobodyListens) {
  int port = 0;
  {
    HttpServer gone(nullptr, nullptr, [](const HttpRequest&) { return HttpReply(); });
    port = gone.port();
  }
  const Error error = error_of(config(port));
  EXPECT_EQ(error.code, Code::network_refused) << error.message;
  EXPECT_THAT(error.message, HasSubstr("localhost:" + std::to_string(port)));
}

TEST_F(LinkFaults, ANameThatDoesNotResolve) {
  LinkConfig with = config(1);
  with.server_url = "https://nowhere.invalid:8443";
  EXPECT_EQ(error_of(with).code, Code::network_name);
}

TEST_F(LinkFaults, NoAnswerInTime) {
  // Accepts in the kernel's queue and never says a word.
  const int silent = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(silent, 1), 0);
  ::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size);
  LinkConfig with = config(ntohs(address.sin_port));
  with.answer_timeout = std::chrono::milliseconds(50);
  EXPECT_EQ(error_of(with).code, Code::network_timeout);
  ::close(silent);
}

TEST_F(LinkFaults, ABrokenKit) {
  serve_nothing_but_ok();
  LinkConfig with = config(server_->port());
  with.ca = directory_ / "missing.crt";
  EXPECT_EQ(error_of(with).code, Code::kit);
  with = config(server_->port());
  with.certificate = file("nonsense.crt", "nonsense");
  EXPECT_EQ(error_of(with).code, Code::kit);
  with = config(server_->port());
  std::filesystem::permissions(with.key, std::filesystem::perms(0644));
  const Error open_key = error_of(with);
  EXPECT_EQ(open_key.code, Code::kit);
  EXPECT_THAT(open_key.cure, HasSubstr("chmod 600"));
  with.key = directory_ / "other.key";
  write_key(make_certificate(authority_, client_wanted()), with.key);
  EXPECT_THAT(error_of(with).message, HasSubstr("is not the key of"));
  EXPECT_EQ(server_->connections(), 0);
}

TEST_F(LinkFaults, AProxyIsUsedAndNoProxyIsHonoured) {
  serve_nothing_but_ok();
  ConnectProxy proxy;
  const std::string url = "http://user:s3cret@localhost:" + std::to_string(proxy.port());
  ::setenv("https_proxy", url.c_str(), 1);
  {
    const std::unique_ptr<Link> link = connect();
    ASSERT_TRUE(link->status_json());
    ASSERT_TRUE(link->status_json());
    EXPECT_EQ(proxy.connections(), 1);
    EXPECT_EQ(link->proxy_used(), "http://localhost:" + std::to_string(proxy.port()));
    EXPECT_THAT(proxy.last_authorization(), HasSubstr("Basic "));
  }
  ::setenv("no_proxy", "localhost,10.0.0.0/8", 1);
  {
    const std::unique_ptr<Link> link = connect();
    ASSERT_TRUE(link->status_json());
    EXPECT_EQ(proxy.connections(), 1);
    EXPECT_EQ(link->proxy_used(), "");
  }
  ::unsetenv("no_proxy");
  LinkConfig direct = config(server_->port());
  direct.proxy = "direct";
  ASSERT_TRUE(connect(direct)->status_json());
  EXPECT_EQ(proxy.connections(), 1);
}

TEST_F(LinkFaults, AProxyThatRefuses) {
  for (const int status : {403, 407}) {
    serve_nothing_but_ok();
    ConnectProxy proxy(status);
    LinkConfig with = config(server_->port());
    with.proxy = "http://user:s3cret@localhost:" + std::to_string(proxy.port());
    const Error error = error_of(with);
    EXPECT_EQ(error.code, Code::network_proxy) << error.message;
    EXPECT_FALSE(may_pass(error.code)) << "asking again cannot help";
    EXPECT_THAT(error.message, HasSubstr(std::to_string(status)));
    EXPECT_THAT(error.message + error.cure, Not(HasSubstr("s3cret")));
    EXPECT_EQ(server_->connections(), 0);
  }
}

TEST_F(LinkFaults, AProxyThatIsNotThere) {
  int port = 0;
  { port = ConnectProxy().port(); }
  LinkConfig with = config(1);
  with.proxy = "http://user:s3cret@localhost:" + std::to_string(port);
  const Error error = error_of(with);
  EXPECT_TRUE(may_pass(error.code)) << "a proxy that is down comes back: " << error.message;
  EXPECT_THAT(error.message, HasSubstr("the proxy"));
  EXPECT_THAT(error.message, Not(HasSubstr("s3cret")));
}

TEST(FaultError, CredentialsNeverShow) {
  EXPECT_EQ(without_credentials("bad syntax in 'http://me:pw@proxy:1/' and socks5://a@b:2"),
            "bad syntax in 'http://proxy:1/' and socks5://b:2");
  EXPECT_EQ(without_credentials("https://fed.example.org:1/a@b"), "https://fed.example.org:1/a@b");
}

TEST(FaultError, AnswersWithoutAProblemDocument) {
  EXPECT_EQ(answer_error(404, "").code, Code::not_found);
  EXPECT_EQ(answer_error(403, "<html>").code, Code::identity);
  EXPECT_EQ(answer_error(429, "").code, Code::try_again);
  EXPECT_EQ(answer_error(507, "").code, Code::storage_full);
  EXPECT_EQ(answer_error(418, "").code, Code::refused);
}

TEST(FaultError, AFaultOfTheServerIsNotOursAndMayPass) {
  const Problem problem{500, {Code::journal, "cannot commit", ""}};
  const Error error = answer_error(500, encode(problem));
  EXPECT_EQ(error.code, Code::server_error);
  EXPECT_EQ(error.message, "cannot commit");
}

TEST(ProxyChoice, IsShownWithoutCredentials) {
  EXPECT_EQ(parse_proxy("http://u:p@proxy.example:3128", "x").shown(), "http://proxy.example:3128");
  EXPECT_EQ(parse_proxy("socks5h://proxy.example:1080", "x").shown(),
            "socks5h://proxy.example:1080");
  EXPECT_EQ(parse_proxy("proxy.example:8080", "x").shown(), "http://proxy.example:8080");
}

}  // namespace
}  // namespace fedqueue::test
