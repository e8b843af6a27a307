// The event stream.
#include <gtest/gtest.h>

#include "tests/unit/fedserver/http/http_fixture.h"

namespace fedqueue::http::test {
namespace {

class ObserveTest : public HttpTest {
 protected:
  // A watcher whose stream has begun.
  void watch(Client& client, const std::string& headers = "") {
    ASSERT_TRUE(
        client.send("GET /v1/runs/mnist/events HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n"));
    const Reply reply = client.read_reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.header("content-type"), "text/event-stream");
    EXPECT_EQ(client.read_until("\n\n"), ": connected\n\n");
  }
  // The next event that is not a comment.
  static std::string next(Client& client) {
    for (;;) {
      const std::string text = client.read_until("\n\n");
      if (text.empty() || text.front() != ':') return text;
    }
  }
  static std::string id_of(const std::string& event) { return event.substr(0, event.find('\n')); }
  Client::Files otto() { return files(IdentityKind::observer, "otto"); }
};

TEST_F(ObserveTest, AWatcherSeesWhatHappensFromNowOn) {
  happen(FacilityJoined{FacilityId("site-a"), 600});
  Client client(server_->port(), otto());
  watch(client);
  happen(FacilityJoined{FacilityId("site-b"), 600});
  const std::string event = next(client);
  EXPECT_EQ(id_of(event), "id: 2");
  EXPECT_NE(event.find("event: facility-joined\ndata: {"), std::string::npos);
  EXPECT_NE(event.find("site-b"), std::string::npos);
}

TEST_F(ObserveTest, AWatcherGoesOnAfterTheLastEventItSaw) {
  for (int i = 0; i < 5; ++i) happen(RunStalled{"reason " + std::to_string(i)});
  Client client(server_->port(), otto());
  watch(client, "Last-Event-ID: 3\r\n");
  EXPECT_EQ(id_of(next(client)), "id: 4");
  EXPECT_EQ(id_of(next(client)), "id: 5");
  happen(RunFinished{"done"});
  EXPECT_EQ(id_of(next(client)), "id: 6");
}

TEST_F(ObserveTest, OldEventsComeFromTheJournal) {
  const auto count = static_cast<int>(FactFeed::kept_max) + 300;
  for (int i = 0; i < count; ++i) happen(RunStalled{"again"});
  Client client(server_->port(), otto());
  watch(client, "Last-Event-ID: 0\r\n");
  for (int i = 1; i <= count; ++i) ASSERT_EQ(id_of(next(client)), "id: " + std::to_string(i));
}

TEST_F(ObserveTest, AFacilityDoesNotSeeOthers) {
  Client client = connect("site-a");
  watch(client);
  happen(FacilityJoined{FacilityId("site-b"), 600});
  happen(FacilityJoined{FacilityId("site-a"), 600});
  EXPECT_EQ(id_of(next(client)), "id: 2");
}

TEST_F(ObserveTest, SilenceIsBrokenByComments) {
  Client client(server_->port(), otto());
  watch(client);
  EXPECT_EQ(client.read_until("\n\n"), ": still here\n\n");
}

TEST_F(ObserveTest, ARevokedWatcherIsSentAway) {
  Client client(server_->port(), otto());
  watch(client);
  ASSERT_TRUE(revoke_certificates(run_, "otto", "observer"));
  EXPECT_EQ(next(client), "");
}

TEST_F(ObserveTest, NonsenseForALastEventIsRefused) {
  Client client(server_->port(), otto());
  const Reply reply =
      client.request("GET /v1/runs/mnist/events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: new\r\n");
  EXPECT_EQ(reply.status, 400);
}

}  // namespace
}  // namespace fedqueue::http::test
