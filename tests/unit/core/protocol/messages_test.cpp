// Every message survives the wire, and what a stranger sends is refused with the field's name.
#include "core/protocol/messages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fedqueue {
namespace {

template <typename T>
T over_the_wire(const T& value) {
  const Result<T> read = decode<T>(encode(value));
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  EXPECT_EQ(encode(*read), encode(value));
  return *read;
}

template <typename T>
std::string refusal(const std::string& text) {
  const Result<T> read = decode<T>(text);
  EXPECT_FALSE(read) << text;
  if (read) return "";
  EXPECT_EQ(read.error().code, Code::usage);
  return read.error().message;
}

TEST(Messages, APlanKeepsAllItsFields) {
  PlanAnswer plan;
  plan.verb = PlanAnswer::Verb::submit;
  plan.reason = "round 3 is open";
  plan.key = "token";
  plan.local_steps = 120;
  plan.learning_rate = 0.005145631067961165;
  plan.time_limit_s = 600;
  plan.deadline_wait_s = 1170;
  plan.predicted_wait_s = 450;
  plan.base = 2;
  const PlanAnswer read = over_the_wire(plan);
  EXPECT_EQ(read.learning_rate, plan.learning_rate);
  EXPECT_EQ(read.base, 2);
  EXPECT_EQ(read.predicted_wait_s, 450);
  plan.verb = PlanAnswer::Verb::wait;
  plan.retry_after_s = 7.5;
  EXPECT_EQ(over_the_wire(plan).retry_after_s, 7.5);
}

TEST(Messages, ARegistrationKeepsItsQueueRecord) {
  JobRegistration job;
  job.attempt = AttemptId("10001_4.2");
  job.nonce = "n";
  job.plan_key = "k";
  job.ranks = 8;
  job.queue = {3605.0, 12.0, 7200.0, 7190.0};
  const JobRegistration read = over_the_wire(job);
  EXPECT_EQ(read.queue.queue_wait_s, 3605.0);
  EXPECT_EQ(read.queue.remaining_s, 7190.0);
  job.queue = {};
  EXPECT_FALSE(over_the_wire(job).queue.queue_wait_s);
}

TEST(Messages, AnAnswerKeepsItsSegmentAndARejectionItsCode) {
  UpdateAnswer answer;
  answer.id = UpdateId("site-a.1.0.1");
  answer.disposition = Disposition::rejected;
  answer.code = Code::not_finite;
  answer.reason = "tensor 'w' is NaN at element 3";
  answer.late = true;
  answer.staleness = 3;
  answer.next = {Next::Kind::segment, {2, 7, 50, 0.25}, 0, "go"};
  const UpdateAnswer read = over_the_wire(answer);
  EXPECT_EQ(read.code, Code::not_finite);
  EXPECT_EQ(read.next.segment.base, 7);
  EXPECT_TRUE(read.late);
  answer.disposition = Disposition::buffered;
  answer.next = {Next::Kind::wait, {}, 2.5, "later"};
  EXPECT_EQ(over_the_wire(answer).next.wait_s, 2.5);
}

TEST(Messages, TheOthersKeepTheirFields) {
  EXPECT_EQ(over_the_wire(PlanRequest{"k", 1, 2, 33.0}).expected_wait_s, 33.0);
  JobAnswer job{"t", 10, 60, {{"batch_size", "64"}}, {}};
  EXPECT_EQ(over_the_wire(job).training.at("batch_size"), "64");
  EXPECT_EQ(over_the_wire(Heartbeat{"t", 40}).steps_done, 40);
  EXPECT_EQ(over_the_wire(HeartbeatAnswer{HeartbeatAnswer::State::finish, "x"}).state,
            HeartbeatAnswer::State::finish);
  EXPECT_EQ(over_the_wire(JobEnd{"t", "TIMEOUT", "d"}).state, "TIMEOUT");
  EXPECT_EQ(over_the_wire(UpdateMetadata{4, 100, 0.5, 50, 3, 0.7, 6400}).samples, 6400);
  EXPECT_EQ(over_the_wire(Evaluation{3, 0.8125, 0.5, 10000}).accuracy, 0.8125);
  const Problem problem{409, {Code::wrong_base, "trained from version 3", "Start again."}};
  EXPECT_EQ(over_the_wire(problem).error.code, Code::wrong_base);
}

TEST(Messages, UnknownFieldsOfNewerPeersAreIgnored) {
  const auto read = decode<Heartbeat>(R"({"token":"t","steps_done":1,"colour":"blue"})");
  EXPECT_TRUE(read);
}

TEST(Messages, WrongFieldsAreNamed) {
  EXPECT_NE(refusal<Heartbeat>("{}").find("token"), std::string::npos);
  EXPECT_NE(refusal<Heartbeat>(R"({"token":5})").find("token"), std::string::npos);
  EXPECT_NE(refusal<Heartbeat>(R"({"token":"t","steps_done":-1})").find("steps_done"),
            std::string::npos);
  EXPECT_NE(
      refusal<Evaluation>(R"({"version":1,"accuracy":1.5,"loss":0,"samples":1})").find("accuracy"),
      std::string::npos);
  EXPECT_NE(refusal<HeartbeatAnswer>(R"({"state":"rest"})").find("go on, finish, fenced"),
            std::string::npos);
  EXPECT_NE(
      refusal<JobRegistration>(R"({"attempt":"../etc","nonce":"n","queue":{}})").find("attempt"),
      std::string::npos);
}

TEST(Messages, WhatIsNoMessageIsRefused) {
  for (const char* text : {"", "nonsense", "[]", "5", "{\"token\":\"t\"", "null"}) {
    refusal<Heartbeat>(text);
  }
  const std::string huge(json_bytes_max + 1, ' ');
  EXPECT_NE(refusal<Heartbeat>(huge).find("longer"), std::string::npos);
  const std::string long_text = R"({"token":")" + std::string(300, 'x') + R"("})";
  EXPECT_NE(refusal<Heartbeat>(long_text).find("longer"), std::string::npos);
}

TEST(Messages, NumbersThatAreNoneAreRefused) {
  refusal<UpdateMetadata>(R"({"base":1e400,"steps_run":1})");
  refusal<UpdateMetadata>(R"({"base":18446744073709551615,"steps_run":1})");
  refusal<UpdateMetadata>(R"({"base":1.5,"steps_run":1})");
}

}  // namespace
}  // namespace fedqueue
