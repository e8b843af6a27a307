#include "fedserver/telemetry/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "tests/unit/core/config/scratch.h"

namespace fedqueue {
namespace {

// A short round: two facilities, one of them late.
std::vector<Fact> one_round() {
  std::vector<Fact> facts;
  facts.push_back(RunOpened{"mnist", {0, "round-0000.safetensors", "abc", 100}});
  facts.push_back(FacilityJoined{FacilityId("site-a"), 300});
  facts.push_back(FacilityJoined{FacilityId("site-b"), 100});
  PlanGiven plan{FacilityId("site-a"), {}, 80.5};
  plan.plan.verb = PlanAnswer::Verb::submit;
  plan.plan.key = "k1";
  plan.plan.local_steps = 40;
  plan.plan.predicted_wait_s = 12;
  facts.push_back(plan);
  for (const char* name : {"site-a", "site-b"}) {
    AttemptStarted started;
    started.facility = FacilityId(name);
    started.registration.attempt = AttemptId("7.0");
    started.registration.nonce = "the-nonce";
    started.registration.queue.queue_wait_s = 9.5;
    started.token = "the-token";
    facts.push_back(started);
    facts.push_back(SegmentAssigned{FacilityId(name), AttemptId("7.0"), {1, 0, 40, 0.01}});
    UpdateDecided decided;
    decided.facility = FacilityId(name);
    decided.attempt = AttemptId("7.0");
    decided.metadata.steps_run = 38;
    decided.metadata.loss = 0.25;
    decided.bytes = 100;
    decided.steps_assigned = 40;
    decided.queue_wait_s = 9.5;
    decided.deadline_wait_s = 20;
    decided.answer.id = UpdateId(std::string(name) + ".7.0.1");
    decided.answer.disposition = Disposition::counted;
    decided.answer.next.kind = Next::Kind::stop;
    if (std::string(name) == "site-b") {
      decided.answer.disposition = Disposition::rejected;
      decided.answer.code = Code::not_finite;
      decided.answer.reason = "tensor 'w' has a NaN";
    }
    facts.push_back(decided);
  }
  ReduceStarted reduce;
  reduce.updates.push_back({UpdateId("site-a.7.0.1"), FacilityId("site-a"), 0, 0, 0.75});
  reduce.cause = "timer";
  facts.push_back(reduce);
  facts.push_back(Published{{1, "round-0001.safetensors", "def", 100}, 0.5});
  return facts;
}

JournalRow row_of(std::int64_t sequence, const Fact& fact) {
  return {sequence, Instant(std::chrono::seconds(sequence)), fact_kind(fact), encode_fact(fact)};
}

class RecorderTest : public testing::Test {
 protected:
  std::unique_ptr<Recorder> open() {
    auto recorder = Recorder::create(scratch_ / "metrics", Log(), metrics_);
    EXPECT_TRUE(recorder) << (recorder ? "" : recorder.error().message);
    return std::move(*recorder);
  }
  static void replay(Recorder& recorder, std::size_t count) {
    const auto facts = one_round();
    for (std::size_t i = 0; i < count; ++i) {
      recorder.on_replayed(row_of(static_cast<std::int64_t>(i) + 1, facts[i]), facts[i]);
    }
  }
  std::vector<std::string> lines(const std::string& name) {
    auto all = split(Scratch::content(scratch_ / "metrics" / name), '\n');
    all.pop_back();
    return all;
  }

  Scratch scratch_;
  Metrics metrics_;
};

TEST_F(RecorderTest, TablesHaveTheReferencesColumns) {
  const auto recorder = open();
  replay(*recorder, one_round().size());
  const auto rounds = lines("rounds.csv");
  ASSERT_EQ(rounds.size(), 3u);
  EXPECT_EQ(rounds[0],
            "round,cid,admitted,q_delay,q_hat,deadline,Jk,Ek,Emin,eta_k,arrival_offset,sequence");
  EXPECT_EQ(rounds[1], "1,site-a,1,9.5,12,20,80.5,40,40,0.01,6,11");
  EXPECT_EQ(rounds[2], "1,site-b,0,9.5,,20,0,40,40,0.01,9,11");
  const auto updates = lines("updates.csv");
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_EQ(updates[0],
            "round_applied,cid,origin_round,staleness,p_k,weight,steps_run,bytes,loss,sequence");
  EXPECT_EQ(updates[1], "1,site-a,1,0,0.75,0.75,38,100,0.25,11");
}

TEST_F(RecorderTest, EveryFactIsOneLineWithoutSecrets) {
  const auto recorder = open();
  replay(*recorder, one_round().size());
  const auto events = lines("events.jsonl");
  ASSERT_EQ(events.size(), one_round().size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto document = nlohmann::json::parse(events[i]);
    EXPECT_EQ(document.at("sequence"), i + 1);
    EXPECT_EQ(document.at("kind"), fact_kind(one_round()[i]));
    EXPECT_EQ(events[i].find("the-token"), std::string::npos);
    EXPECT_EQ(events[i].find("the-nonce"), std::string::npos);
  }
}

TEST_F(RecorderTest, ARestartNeitherRepeatsNorLosesARow) {
  replay(*open(), 7);
  replay(*open(), one_round().size());
  replay(*open(), one_round().size());
  EXPECT_EQ(lines("events.jsonl").size(), one_round().size());
  EXPECT_EQ(lines("rounds.csv").size(), 3u);
  EXPECT_EQ(lines("updates.csv").size(), 2u);
}

TEST_F(RecorderTest, MetricsCarryTheNamesOperatorsKnow) {
  const auto recorder = open();
  replay(*recorder, one_round().size());
  EXPECT_EQ(metrics_.value("fedqueue_round"), 2);
  EXPECT_EQ(
      metrics_.value("fedqueue_updates_total", {{"client", "site-a"}, {"outcome", "admitted"}}), 1);
  EXPECT_EQ(metrics_.value("fedqueue_updates_rejected_total", {{"reason", "not-finite"}}), 1);
  EXPECT_EQ(metrics_.value("fedqueue_weight", {{"client", "site-a"}}), 0.75);
  EXPECT_EQ(metrics_.value("fedqueue_queue_wait_seconds", {{"client", "site-a"}}), 9.5);
  EXPECT_EQ(metrics_.value("fedqueue_queue_estimate_seconds", {{"client", "site-a"}}), 12);
  EXPECT_EQ(metrics_.value("fedqueue_client_state", {{"client", "site-a"}, {"state", "training"}}),
            1);
  EXPECT_EQ(metrics_.value("fedqueue_aggregate_seconds"), 1);
  EXPECT_NE(metrics_.text().find("process_resident_memory_bytes"), std::string::npos);
}

TEST_F(RecorderTest, LogLinesNameWhatUsersLookFor) {
  const auto path = scratch_.file("log", "");
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(descriptor, 0);
  LogOptions options;
  options.text_descriptor = descriptor;
  const auto log = Log::create(options, "server");
  ASSERT_TRUE(log);
  for (const Fact& fact : one_round()) log_fact(*log, fact);
  ::close(descriptor);
  const std::string text = Scratch::content(path);
  for (const char* words :
       {"\"plan given\"", "\"job started\"", "queue_wait_s=9.5", "\"update received\"",
        "\"update rejected\"", "has a NaN", "\"round closed\"", "cause=timer", "\"model saved\"",
        "facility=site-a", "job=7.0"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  }
  EXPECT_EQ(text.find("the-token"), std::string::npos);
}

}  // namespace
}  // namespace fedqueue
