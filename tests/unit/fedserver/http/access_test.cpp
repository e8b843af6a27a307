// Who may do what, and how requests that make no sense are answered.
#include <gtest/gtest.h>

#include "tests/unit/fedserver/http/http_fixture.h"

namespace fedqueue::http::test {
namespace {

class AccessTest : public HttpTest {
 protected:
  Reply ask(const Client::Files& kit, const std::string& line, const std::string& body = "") {
    Client client(server_->port(), kit);
    return client.request(line + " HTTP/1.1\r\nHost: x\r\n", body);
  }
  Client::Files ada() { return files(IdentityKind::administrator, "ada"); }
  Client::Files otto() { return files(IdentityKind::observer, "otto"); }
};

TEST_F(AccessTest, OnlyFacilitiesTrain) {
  for (const char* line :
       {"POST /v1/runs/mnist/plans", "POST /v1/runs/mnist/jobs",
        "POST /v1/runs/mnist/jobs/1.0/heartbeat", "DELETE /v1/runs/mnist/jobs/1.0",
        "PUT /v1/runs/mnist/updates/site-a.1.0.1"}) {
    EXPECT_EQ(ask(ada(), line, "{}").status, 403) << line;
    EXPECT_EQ(ask(otto(), line, "{}").status, 403) << line;
  }
}

TEST_F(AccessTest, OnlyAnOperatorStopsTheRun) {
  EXPECT_EQ(ask(site("site-a"), "POST /v1/runs/mnist/stop", "{}").status, 403);
  EXPECT_EQ(ask(otto(), "POST /v1/runs/mnist/stop", "{}").status, 403);
  EXPECT_TRUE(driver_.seen<StopRequested>().empty());
  EXPECT_EQ(ask(ada(), "POST /v1/runs/mnist/stop", "{\"reason\":\"enough\"}").status, 200);
  const auto stops = driver_.seen<StopRequested>();
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_NE(stops[0].reason.find("enough"), std::string::npos);
  EXPECT_NE(stops[0].reason.find("ada"), std::string::npos);
}

TEST_F(AccessTest, MetricsAndThePageAreForWatchers) {
  for (const char* line : {"GET /healthz", "GET /metrics", "GET /"}) {
    EXPECT_EQ(ask(site("site-a"), line).status, 403) << line;
  }
  EXPECT_EQ(ask(otto(), "GET /healthz").body, "ok\n");
  EXPECT_NE(ask(otto(), "GET /metrics").body.find("fedqueue_connections"), std::string::npos);
}

TEST_F(AccessTest, TheLoopbackListenerShowsTheStatusAndNothingElse) {
  driver_.answer_with([](const Event&) -> Answer { return std::string("{\"run\":\"mnist\"}"); });
  const auto ask_plain = [this](const std::string& line) {
    Client client(server_->status_port());
    return client.request(line + " HTTP/1.1\r\nHost: x\r\n");
  };
  EXPECT_EQ(ask_plain("GET /healthz").status, 200);
  EXPECT_EQ(ask_plain("GET /metrics").status, 200);
  const Reply page = ask_plain("GET /");
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("mnist"), std::string::npos);
  EXPECT_EQ(ask_plain("GET /v1/runs/mnist").status, 403);
  EXPECT_EQ(ask_plain("POST /v1/runs/mnist/stop").status, 403);
}

TEST_F(AccessTest, AFacilityIsShownItselfAndOthersAll) {
  (void)ask(site("site-a"), "GET /v1/runs/mnist");
  (void)ask(otto(), "GET /v1/runs/mnist");
  const auto asked = driver_.seen<StatusRequested>();
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].viewer, FacilityId("site-a"));
  EXPECT_EQ(asked[1].viewer, std::nullopt);
}

TEST_F(AccessTest, AnotherRunIsNamed) {
  const Reply reply = ask(site("site-a"), "GET /v1/runs/cifar");
  EXPECT_EQ(reply.status, 404);
  EXPECT_NE(reply.body.find("cifar"), std::string::npos);
  EXPECT_NE(reply.body.find("mnist"), std::string::npos);
}

TEST_F(AccessTest, UnknownPathsAndMethodsAreProblems) {
  const Reply path = ask(site("site-a"), "GET /v1/runs/mnist/nothing");
  EXPECT_EQ(path.status, 404);
  EXPECT_EQ(path.header("content-type"), "application/problem+json");
  const Reply method = ask(site("site-a"), "GET /v1/runs/mnist/plans");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("allow"), "POST");
}

TEST_F(AccessTest, NoiseIsNoRequest) {
  Client client = connect();
  ASSERT_TRUE(client.send("NOISE\r\n\r\n"));
  EXPECT_EQ(client.read_reply().status, 400);
  EXPECT_TRUE(client.ended());
}

TEST_F(AccessTest, AnEndlessHeaderIsCutShort) {
  Client client = connect();
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x')));
  EXPECT_EQ(client.read_reply().status, 431);
}

TEST_F(AccessTest, RequestsOfOneConnectionAreAnsweredInOrder) {
  Client client = connect();
  const std::string one = "GET /v1/runs/mnist HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string other = "GET /v1/runs/cifar HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_TRUE(client.send(one + other + one));
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_EQ(client.read_reply().status, 404);
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(AccessTest, ARefusedBodyDoesNotBecomeTheNextRequest) {
  Client client = connect();
  const std::string head = "POST /v1/runs/cifar/plans HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(client.request(head, "GET / HTTP/1.1\r\n\r\n").status, 404);
  EXPECT_EQ(client.request("GET /v1/runs/mnist HTTP/1.1\r\nHost: x\r\n").status, 200);
}

TEST_F(AccessTest, LargeJsonIsRefusedUnread) {
  Client client = connect();
  ASSERT_TRUE(client.send(
      "POST /v1/runs/mnist/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n"));
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.header("connection"), "close");
}

TEST_F(AccessTest, AFullDriverMeansComeBack) {
  driver_.set_full(true);
  const Reply reply = ask(site("site-a"), "GET /v1/runs/mnist");
  EXPECT_EQ(reply.status, 503);
  EXPECT_FALSE(reply.header("retry-after").empty());
}

TEST_F(AccessTest, TooManyRequestsMeanComeBackButTheServerIsAlive) {
  HttpLimits limits;
  limits.requests_max = 0;
  start({}, limits);
  EXPECT_EQ(ask(site("site-a"), "GET /v1/runs/mnist").status, 503);
  EXPECT_EQ(ask(otto(), "GET /healthz").status, 200);
}

TEST_F(AccessTest, StoppingDoesNotWaitForTheDriver) {
  driver_.hold();
  Client client = connect();
  ASSERT_TRUE(client.send("GET /v1/runs/mnist HTTP/1.1\r\nHost: x\r\n\r\n"));
  driver_.wait_for_held(1);
  server_->stop();
  server_.reset();
  // An answer that comes too late finds nobody, and harms nobody.
  driver_.release(Accepted{});
  const Reply reply = client.read_reply();
  EXPECT_TRUE(reply.status == 0 || reply.status == 503) << reply.status;
}

}  // namespace
}  // namespace fedqueue::http::test
