// Who gets through the handshake, and what the others are told.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/fedserver/http/http_fixture.h"

namespace fedqueue::http::test {
namespace {

class TlsTest : public HttpTest {
 protected:
  // The alert reaches the client a moment before the failure is counted.
  void wait_until_counted(const char* reason) {
    while (metrics_.value("fedqueue_tls_failures_total", {{"reason", reason}}) < 1) {
      std::this_thread::yield();
    }
    EXPECT_EQ(metrics_.value("fedqueue_tls_failures_total", {{"reason", reason}}), 1);
  }
};

constexpr const char* ask_status = "GET /v1/runs/mnist HTTP/1.1\r\nHost: x\r\n";

TEST_F(TlsTest, AKitOfThisServerIsLetIn) {
  driver_.answer_with([](const Event&) -> Answer { return std::string("{\"run\":\"mnist\"}"); });
  Client client = connect();
  const Reply reply = client.request(ask_status);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "{\"run\":\"mnist\"}");
}

TEST_F(TlsTest, IPv6IsHeardToo) {
  Client client(server_->port(), site("site-a"), "::1");
  EXPECT_EQ(client.request(ask_status).status, 200);
}

TEST_F(TlsTest, NoCertificateNoAnswer) {
  Client client(server_->port(), Client::Files{site("site-a").ca, {}, {}});
  client.send(std::string(ask_status) + "\r\n");
  EXPECT_EQ(client.read_reply().status, 0);
  wait_until_counted("no-certificate");
  EXPECT_TRUE(driver_.seen<StatusRequested>().empty());
}

TEST_F(TlsTest, ACertificateOfAnotherCaIsRefused) {
  CertificateRun other = run_;
  other.files.run_directory = scratch_ / "other";
  ASSERT_TRUE(create_certificates(other, {{"localhost"}, {}}));
  ASSERT_TRUE(issue_client_certificate(
      other, {.identity = {IdentityKind::facility, "site-a"}, .samples = 600}));
  const auto folder = other.files.kit({IdentityKind::facility, "site-a"});
  Client client(server_->port(),
                Client::Files{site("site-a").ca, folder / "client.crt", folder / "client.key"});
  client.send(std::string(ask_status) + "\r\n");
  EXPECT_EQ(client.read_reply().status, 0);
  wait_until_counted("untrusted");
}

TEST_F(TlsTest, AnExpiredCertificateIsNamedAsSuch) {
  CertificateRun then = run_;
  then.now = calendar_now() - std::chrono::days{40};
  ASSERT_TRUE(issue_client_certificate(then, {.identity = {IdentityKind::facility, "site-old"},
                                              .samples = 600,
                                              .lifetime = std::chrono::days{10}}));
  Client client(server_->port(), site("site-old"));
  client.send(std::string(ask_status) + "\r\n");
  EXPECT_EQ(client.read_reply().status, 0);
  wait_until_counted("expired");
}

TEST_F(TlsTest, PlaintextIsToldThatThisIsATlsPort) {
  Client client(server_->port());
  const Reply reply = client.request(ask_status);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.header("content-type"), "application/problem+json");
  EXPECT_NE(reply.body.find("this is a TLS port"), std::string::npos);
  EXPECT_NE(reply.body.find("https://"), std::string::npos);
  wait_until_counted("plaintext");
}

TEST_F(TlsTest, ARevocationActsOnAnOpenConnection) {
  Client client = connect();
  EXPECT_EQ(client.request(ask_status).status, 200);
  ASSERT_TRUE(revoke_certificates(run_, "site-a", "facility"));
  const Reply reply = client.request(ask_status);
  EXPECT_EQ(reply.status, 403);
  EXPECT_NE(reply.body.find("\"title\":\"revoked\""), std::string::npos);
  EXPECT_NE(reply.body.find("\"cure\":\""), std::string::npos);
}

TEST_F(TlsTest, NewCertificateFilesAreUsedWithoutARestart) {
  std::vector<std::string> lines;
  auto loaded = TlsCertificates::load(
      {run_.files.authority() / "ca.crt", run_.files.server_certificate(), run_.files.server_key()},
      Log());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto before = (*loaded)->current();
  EXPECT_FALSE((*loaded)->refresh());
  ASSERT_TRUE(issue_server_certificate(run_, {{"localhost"}, {"127.0.0.1"}}));
  EXPECT_TRUE((*loaded)->refresh());
  EXPECT_NE((*loaded)->current(), before);
}

TEST_F(TlsTest, BrokenNewFilesLeaveTheOldOnesInForce) {
  auto loaded = TlsCertificates::load(
      {run_.files.authority() / "ca.crt", run_.files.server_certificate(), run_.files.server_key()},
      Log());
  ASSERT_TRUE(loaded);
  const auto before = (*loaded)->current();
  std::ofstream(run_.files.server_certificate()) << "not a certificate";
  EXPECT_FALSE((*loaded)->refresh());
  EXPECT_EQ((*loaded)->current(), before);
}

TEST_F(TlsTest, AKeyThatOthersCanReadIsRefused) {
  std::filesystem::permissions(run_.files.server_key(), std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  auto loaded = TlsCertificates::load(
      {run_.files.authority() / "ca.crt", run_.files.server_certificate(), run_.files.server_key()},
      Log());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kit);
  EXPECT_NE(loaded.error().cure.find("chmod 600"), std::string::npos);
}

TEST_F(TlsTest, ASilentPeerIsCutOff) {
  HttpLimits limits;
  limits.handshake_time = std::chrono::milliseconds(300);
  start({}, limits);
  Client client(server_->port());
  EXPECT_TRUE(client.ended());
}

TEST_F(TlsTest, AHalfRequestIsCutOff) {
  HttpLimits limits;
  limits.request_time = std::chrono::milliseconds(300);
  start({}, limits);
  Client client = connect();
  ASSERT_TRUE(client.send("GET /v1/runs/mnist HTTP/1.1\r\nHost:"));
  EXPECT_TRUE(client.ended());
}

TEST_F(TlsTest, TheStatusListenerStaysOnThisMachine) {
  HttpConfig config;
  config.run = "mnist";
  config.tls = {run_.files.authority() / "ca.crt", run_.files.server_certificate(),
                run_.files.server_key()};
  config.status_port = 0;
  config.status_address = "0.0.0.0";
  HttpPorts ports;
  ports.metrics = &metrics_;
  ports.feed = &feed_;
  auto started = HttpServer::start(std::move(config), std::move(ports));
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::usage);
}

}  // namespace
}  // namespace fedqueue::http::test
