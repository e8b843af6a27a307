// Small calls, and what the link does with answers that are not what was hoped for.
#include "tests/unit/fedclient/link/link_fixture.h"

namespace fedqueue::test {
namespace {

class LinkCalls : public LinkFixture {};

TEST_F(LinkCalls, APlanIsAskedForWithItsKey) {
  serve([](const HttpRequest&) {
    PlanAnswer answer;
    answer.verb = PlanAnswer::Verb::submit;
    answer.key = "token-7";
    answer.local_steps = 40;
    return HttpReply{200, {}, encode(answer), std::string::npos};
  });
  PlanRequest request;
  request.key = "token-7";
  request.pending_jobs = 1;
  Result<PlanAnswer> answer = connect()->plan(request);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->local_steps, 40);
  ASSERT_EQ(requests().size(), 1u);
  const HttpRequest got = requests()[0];
  EXPECT_EQ(got.method, "POST");
  EXPECT_EQ(got.target, "/v1/runs/mnist/plans");
  EXPECT_EQ(decode<PlanRequest>(got.body)->key, "token-7");
  EXPECT_EQ(decode<PlanRequest>(got.body)->pending_jobs, 1);
}

TEST_F(LinkCalls, ManyCallsShareOneConnection) {
  serve([](const HttpRequest&) {
    return HttpReply{200, {}, encode(HeartbeatAnswer()), std::string::npos};
  });
  const std::unique_ptr<Link> link = connect();
  for (int i = 0; i < 20; ++i) {
    Result<HeartbeatAnswer> answer = link->heartbeat(AttemptId("7.0"), {"token", i});
    ASSERT_TRUE(answer) << answer.error().message;
  }
  EXPECT_EQ(server_->connections(), 1);
  EXPECT_EQ(requests()[3].target, "/v1/runs/mnist/jobs/7.0/heartbeat");
}

TEST_F(LinkCalls, EndsAndEvaluationsAreToldInTheirBodies) {
  serve([](const HttpRequest&) { return HttpReply{200, {}, "{}", std::string::npos}; });
  const std::unique_ptr<Link> link = connect();
  EXPECT_TRUE(link->end_job(AttemptId("7.0"), {"", "TIMEOUT", "seen by the agent"}));
  EXPECT_TRUE(link->evaluated({3, 0.9, 0.3, 1000}));
  ASSERT_EQ(requests().size(), 2u);
  EXPECT_EQ(requests()[0].method, "DELETE");
  EXPECT_EQ(decode<JobEnd>(requests()[0].body)->state, "TIMEOUT");
  EXPECT_EQ(requests()[0].target, "/v1/runs/mnist/jobs/7.0");
  EXPECT_EQ(decode<Evaluation>(requests()[1].body)->version, 3);
}

TEST_F(LinkCalls, AProblemComesWithItsCodeAndCure) {
  serve([](const HttpRequest&) {
    Problem problem{410, {Code::run_finished, "the run 'mnist' is finished", "Start another."}};
    return HttpReply{
        410, {"Content-Type: application/problem+json"}, encode(problem), std::string::npos};
  });
  Result<PlanAnswer> answer = connect()->plan({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::run_finished);
  EXPECT_EQ(answer.error().message, "the run 'mnist' is finished");
  EXPECT_EQ(answer.error().cure, "Start another.");
}

TEST_F(LinkCalls, ABrokenServerMayPass) {
  serve([](const HttpRequest&) { return HttpReply{502, {}, "<html>", std::string::npos}; });
  Result<std::string> answer = connect()->status_json();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::server_error);
  EXPECT_TRUE(may_pass(answer.error().code));
}

TEST_F(LinkCalls, NonsenseIsNotTakenForAnAnswer) {
  serve([](const HttpRequest&) { return HttpReply{200, {}, "hello", std::string::npos}; });
  Result<PlanAnswer> answer = connect()->plan({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::network);
}

TEST_F(LinkCalls, TheLatestVersionIsReadFromTheRedirection) {
  serve([](const HttpRequest&) {
    return HttpReply{307, {"Location: /v1/runs/mnist/models/12"}, "", std::string::npos};
  });
  Result<Version> version = connect()->latest_version();
  ASSERT_TRUE(version) << version.error().message;
  EXPECT_EQ(*version, 12);
}

TEST_F(LinkCalls, EventsGoOnAfterALostConnection) {
  serve([](const HttpRequest& request) {
    const bool first = request.headers.count("last-event-id") == 0;
    const std::string body = first ? "id: 1\nevent: published\ndata: {\"version\":1}\n\n"
                                   : "id: 2\nevent: published\ndata: {\"version\":2}\n\n";
    return HttpReply{200, {"Content-Type: text/event-stream"}, body, std::string::npos};
  });
  std::vector<ServerEvent> seen;
  const Status status = connect()->events(0, [&](const ServerEvent& event) {
    seen.push_back(event);
    return seen.size() < 2;
  });
  EXPECT_TRUE(status) << status.error().message;
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].kind, "published");
  EXPECT_EQ(seen[1].data, "{\"version\":2}");
  EXPECT_EQ(requests()[1].headers.at("last-event-id"), "1");
}

}  // namespace
}  // namespace fedqueue::test
