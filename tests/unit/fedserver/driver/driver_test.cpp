// The loop around the engine: journal first, then reply, then act; a restart goes on.
#include "fedserver/driver/driver.h"

#include <gtest/gtest.h>

namespace fedqueue {
namespace {

class MemoryJournal : public Journal {
 public:
  Result<std::vector<JournalRow>> rows(std::int64_t after, std::size_t limit) override {
    std::vector<JournalRow> found;
    for (const JournalRow& row : kept) {
      if (row.sequence > after && found.size() < limit) found.push_back(row);
    }
    return found;
  }
  Status append(std::span<const JournalRow> rows) override {
    if (full) return Error{Code::storage_full, "write the journal: no space left", "Make room."};
    kept.insert(kept.end(), rows.begin(), rows.end());
    return {};
  }
  Result<Instant> uptime() override { return noted; }
  Status note_uptime(Instant now) override {
    noted = std::max(noted, now);
    return {};
  }

  std::vector<JournalRow> kept;
  Instant noted{};
  bool full = false;
};

class ListedEffects : public Effects {
 public:
  void perform(const Action& action) override { performed.push_back(action); }
  template <typename T>
  [[nodiscard]] std::size_t count() const {
    std::size_t found = 0;
    for (const Action& action : performed) found += std::holds_alternative<T>(action) ? 1 : 0;
    return found;
  }
  std::vector<Action> performed;
};

EngineConfig config() {
  EngineConfig config;
  config.run = "mnist";
  config.policy.policy = PolicyKind::fedavg;
  config.policy.t_sync_s = 100;
  return config;
}

const ModelRecord initial{0, "round-0000.safetensors", "sha", 1000};

struct Bench {
  MemoryJournal journal;
  ListedEffects effects;
  std::unique_ptr<Driver> driver;
  Instant now{};

  Bench() { start(); }
  void start() {
    Result<std::unique_ptr<Driver>> made =
        Driver::create(config(), initial, journal, effects, {}, [] {});
    ASSERT_TRUE(made) << made.error().message;
    driver = std::move(*made);
    now = driver->resumed_at();
    driver->resume(now);
  }
  // Posts an event, turns, and returns the answer.
  Answer send(Event event) {
    std::optional<Answer> got;
    EXPECT_TRUE(driver->post(std::move(event), [&](Answer answer) { got = std::move(answer); }));
    now += std::chrono::seconds(1);
    driver->turn(now);
    EXPECT_TRUE(got.has_value());
    return got.value_or(Answer(Accepted{}));
  }
  // One facility delivers, which closes the round.
  void deliver() {
    send(FacilityEnrolled{FacilityId("a"), 10});
    AttemptArrived arrival;
    arrival.facility = FacilityId("a");
    arrival.registration.attempt = AttemptId("1.0");
    arrival.registration.nonce = "n";
    arrival.fresh_token = "t";
    const Answer job = send(arrival);
    UpdateStored update;
    update.facility = FacilityId("a");
    update.id = UpdateId("a.1.0.1");
    update.metadata.steps_run = std::get<JobAnswer>(job).next.segment.local_steps;
    update.token = "t";
    update.bytes = 100;
    send(update);
  }
};

TEST(Driver, OpensTheRunOnce) {
  Bench bench;
  ASSERT_EQ(bench.journal.kept.size(), 1u);
  EXPECT_EQ(bench.journal.kept[0].kind, "run-opened");
  bench.start();
  EXPECT_EQ(bench.journal.kept.size(), 1u);
}

TEST(Driver, RepliesAfterTheFactsAreKept) {
  Bench bench;
  bench.send(FacilityEnrolled{FacilityId("a"), 10});
  std::size_t kept_at_reply = 0;
  PlanRequest request;
  request.key = "k";
  ASSERT_TRUE(bench.driver->post(PlanRequested{FacilityId("a"), request},
                                 [&](Answer) { kept_at_reply = bench.journal.kept.size(); }));
  bench.driver->turn(bench.now);
  EXPECT_EQ(bench.journal.kept[kept_at_reply - 1].kind, "plan-given");
}

TEST(Driver, ARestartFindsTheSameStateAndDoesWhatIsOwed) {
  Bench bench;
  bench.deliver();
  ASSERT_EQ(bench.effects.count<StartReduce>(), 1u);
  const std::string before = bench.driver->engine().durable_state();
  bench.effects.performed.clear();
  bench.start();
  EXPECT_EQ(bench.driver->engine().durable_state(), before);
  EXPECT_EQ(bench.effects.count<StartReduce>(), 1u) << "the reduction is started again";
  bench.send(ReduceFinished{{1, "round-0001.safetensors", "sha1", 1000}, 0.1});
  EXPECT_EQ(bench.driver->engine().state().latest, 1);
  bench.effects.performed.clear();
  bench.start();
  EXPECT_EQ(bench.effects.count<StartReduce>(), 0u);
  EXPECT_EQ(bench.effects.count<LinkLatest>(), 1u);
}

TEST(Driver, UptimeGoesOnWhereItWas) {
  Bench bench;
  bench.driver->turn(bench.now + std::chrono::seconds(100));
  bench.start();
  EXPECT_GE(bench.driver->resumed_at(), Instant(std::chrono::seconds(100)));
}

TEST(Driver, AFullQueueIsSaidSoAndNothingIsTaken) {
  Bench bench;
  for (std::size_t i = 0; i < Driver::queue_max; ++i) {
    ASSERT_TRUE(bench.driver->post(StatusRequested{}, {}));
  }
  EXPECT_FALSE(bench.driver->post(StatusRequested{}, {}));
  EXPECT_EQ(bench.driver->queued(), Driver::queue_max);
  while (bench.driver->has_work()) bench.driver->turn(bench.now);
  EXPECT_TRUE(bench.driver->post(StatusRequested{}, {}));
}

TEST(Driver, ACompletionIsTakenHoweverFullTheQueueIs) {
  Bench bench;
  bench.deliver();
  while (bench.driver->post(StatusRequested{}, {})) {
  }
  bench.driver->complete(ReduceFinished{{1, "round-0001.safetensors", "sha1", 1000}, 0.1});
  while (bench.driver->has_work()) bench.driver->turn(bench.now);
  EXPECT_EQ(bench.driver->engine().state().latest, 1);
}

TEST(Driver, AHoleInTheJournalIsRefused) {
  Bench bench;
  bench.deliver();
  bench.journal.kept.erase(bench.journal.kept.begin() + 2);
  const auto again = Driver::create(config(), initial, bench.journal, bench.effects, {}, [] {});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::journal);
}

TEST(Driver, AJournalOfAnotherRunIsRefused) {
  Bench bench;
  EngineConfig other = config();
  other.run = "cifar";
  const auto again = Driver::create(other, initial, bench.journal, bench.effects, {}, [] {});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::conflict);
}

TEST(DriverDeathTest, AJournalThatCannotBeWrittenEndsTheProcess) {
  Bench bench;
  bench.journal.full = true;
  ASSERT_TRUE(bench.driver->post(FacilityEnrolled{FacilityId("a"), 10}, {}));
  EXPECT_EXIT(bench.driver->turn(bench.now), ::testing::ExitedWithCode(63), "no space left");
}

}  // namespace
}  // namespace fedqueue
