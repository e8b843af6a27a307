// Whatever bytes come in, the server answers or hangs up, blames the peer and serves the next one.
#include "tests/unit/fedserver/http/http_fixture.h"
#include "tests/unit/fedserver/http/mutation.h"

namespace fedqueue::http::test {
namespace {

class MutatedRequests : public HttpTest {
 protected:
  // Sends the text and nothing more; the status of every answer is the peer's fault or fine.
  static void send(Client& client, const std::string& text) {
    client.send(text);
    client.end_sending();
    for (;;) {
      const Reply reply = client.read_reply();
      if (reply.status == 0) return;
      EXPECT_NE(reply.status, 500) << text;
    }
  }
};

TEST_F(MutatedRequests, WithoutTls) {
  const std::vector<std::string> good = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n",
      "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-5\r\n\r\n",
      "POST /v1/runs/mnist/plans HTTP/1.1\r\nContent-Length: 11\r\n\r\n{\"key\":\"a\"}"};
  Prng random(2605);
  for (int round = 0; round < 4000; ++round) {
    Client client(server_->status_port());
    ASSERT_TRUE(client.connected());
    send(client, mutated(good[random.below(good.size())], good, random));
    if (HasFailure()) return;
  }
  EXPECT_EQ(Client(server_->status_port()).request("GET /healthz HTTP/1.1\r\n").status, 200);
}

TEST_F(MutatedRequests, OfAFacility) {
  publish(0, std::string(1000, 'm'));
  const std::string update = "/v1/runs/mnist/updates/site-a.7.0.0 HTTP/1.1\r\n";
  const std::string metadata =
      std::string(header_metadata) + ": " + encode(UpdateMetadata{0, 4, 0.1, 0.4, 1, 0.5, 64});
  const std::vector<std::string> good = {
      "GET /v1/runs/mnist/models/0 HTTP/1.1\r\nRange: bytes=10-19\r\n\r\n",
      "HEAD " + update + "\r\n",
      "PUT " + update + metadata + "\r\n" + header_digest + ": " + std::string(32, '0') + "\r\n" +
          header_token + ": token\r\nContent-Range: bytes 0-3/4\r\nContent-Length: 4\r\n\r\nabcd",
      "POST /v1/runs/mnist/jobs/7.0/heartbeat HTTP/1.1\r\nContent-Length: 32\r\n\r\n" +
          encode(Heartbeat{"token", 7})};
  Prng random(409);
  for (int round = 0; round < 400; ++round) {
    Client client = connect();
    ASSERT_TRUE(client.connected());
    send(client, mutated(good[random.below(good.size())], good, random));
    if (HasFailure()) return;
  }
  Client client = connect();
  EXPECT_EQ(client.request("GET /v1/runs/mnist/models/0 HTTP/1.1\r\n").body.size(), 1000u);
}

}  // namespace
}  // namespace fedqueue::http::test
