// The small requests: what they become for the engine, and what its answers become for the client.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/fedserver/http/http_fixture.h"

namespace fedqueue::http::test {
namespace {

class ControlTest : public HttpTest {
 protected:
  Reply ask(const std::string& line, const std::string& body) {
    Client client = connect();
    return client.request(line + " HTTP/1.1\r\nHost: x\r\n", body);
  }
};

TEST_F(ControlTest, APlanGoesThroughUnchanged) {
  PlanAnswer plan;
  plan.verb = PlanAnswer::Verb::submit;
  plan.key = "k1";
  plan.local_steps = 40;
  plan.learning_rate = 0.01;
  driver_.answer_with([plan](const Event&) -> Answer { return plan; });
  PlanRequest request;
  request.key = "k1";
  request.pending_jobs = 2;
  const Reply reply = ask("POST /v1/runs/mnist/plans", encode(request));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, encode(plan));
  const auto seen = driver_.seen<PlanRequested>();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].facility, FacilityId("site-a"));
  EXPECT_EQ(seen[0].request.pending_jobs, 2);
}

TEST_F(ControlTest, EveryRegistrationBringsAFreshToken) {
  driver_.answer_with([](const Event&) -> Answer { return JobAnswer{}; });
  JobRegistration registration;
  registration.attempt = AttemptId("10001.0");
  registration.nonce = "n";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask("POST /v1/runs/mnist/jobs", encode(registration)).status, 200);
  }
  std::set<std::string> tokens;
  for (const AttemptArrived& arrived : driver_.seen<AttemptArrived>()) {
    EXPECT_EQ(arrived.fresh_token.size(), 32u);
    tokens.insert(arrived.fresh_token);
  }
  EXPECT_EQ(tokens.size(), 3u);
}

TEST_F(ControlTest, HeartbeatsAndEndsNameTheirAttempt) {
  driver_.answer_with([](const Event& event) -> Answer {
    if (std::holds_alternative<HeartbeatArrived>(event)) return HeartbeatAnswer{};
    return Accepted{};
  });
  Heartbeat heartbeat;
  heartbeat.token = "t";
  EXPECT_EQ(ask("POST /v1/runs/mnist/jobs/10001.0/heartbeat", encode(heartbeat)).body,
            encode(HeartbeatAnswer{}));
  JobEnd end;
  end.state = "TIMEOUT";
  EXPECT_EQ(ask("DELETE /v1/runs/mnist/jobs/10001.0", encode(end)).body, "{}");
  ASSERT_EQ(driver_.seen<HeartbeatArrived>().size(), 1u);
  EXPECT_EQ(driver_.seen<HeartbeatArrived>()[0].attempt, AttemptId("10001.0"));
  ASSERT_EQ(driver_.seen<AttemptLeft>().size(), 1u);
  EXPECT_EQ(driver_.seen<AttemptLeft>()[0].end.state, "TIMEOUT");
}

TEST_F(ControlTest, AWrongMessageNeverReachesTheEngine) {
  for (const char* body : {"{}", "[]", "{\"key\":7}", "not json"}) {
    const Reply reply = ask("POST /v1/runs/mnist/plans", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.header("content-type"), "application/problem+json");
    const auto problem = decode<Problem>(reply.body);
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->error.code, Code::usage);
    EXPECT_FALSE(problem->error.cure.empty());
  }
  EXPECT_EQ(ask("DELETE /v1/runs/mnist/jobs/../x", "{}").status, 404);
  EXPECT_EQ(ask("DELETE /v1/runs/mnist/jobs/zzz", "{\"state\":\"done\"}").status, 400);
  EXPECT_TRUE(driver_.seen<PlanRequested>().empty());
  EXPECT_TRUE(driver_.seen<AttemptLeft>().empty());
}

TEST_F(ControlTest, TheEnginesErrorsArriveWithCodeAndCure) {
  const Error why{Code::run_finished, "the run is finished", "Start another."};
  driver_.answer_with([why](const Event&) -> Answer { return why; });
  PlanRequest request;
  request.key = "k";
  const Reply reply = ask("POST /v1/runs/mnist/plans", encode(request));
  EXPECT_EQ(reply.status, 410);
  EXPECT_EQ(reply.body, encode(Problem{410, why}));
}

TEST_F(ControlTest, EvaluationsComeFromAnyMember) {
  Evaluation evaluation;
  evaluation.version = 3;
  evaluation.accuracy = 0.75;
  evaluation.samples = 100;
  EXPECT_EQ(ask("POST /v1/runs/mnist/evaluations", encode(evaluation)).body, "{}");
  Client observer(server_->port(), files(IdentityKind::observer, "otto"));
  EXPECT_EQ(
      observer
          .request("POST /v1/runs/mnist/evaluations HTTP/1.1\r\nHost: x\r\n", encode(evaluation))
          .status,
      200);
  EXPECT_EQ(driver_.seen<EvaluationArrived>().size(), 2u);
}

}  // namespace
}  // namespace fedqueue::http::test
