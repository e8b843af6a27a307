#include "simulation/world/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tiny_federation.h"

namespace fedqueue::simulation {
namespace {

using namespace std::chrono_literals;
using test::TinyFederation;

struct Seen : Witness {
  void on_fact(const JournalRow& row, const Fact&, const Engine&) override {
    kinds.push_back(row.kind);
  }
  void on_agent_over(const FacilityId&, int exit_code, const std::string&) override {
    exits.push_back(exit_code);
  }
  std::vector<std::string> kinds;
  std::vector<int> exits;
};

TEST(World, AFederationWithoutFaultsPublishesAllRoundsAndEnds) {
  for (const PolicyKind policy : {PolicyKind::fedavg, PolicyKind::fedqueue}) {
    Seen seen;
    EngineConfig config = TinyFederation::config();
    config.policy.policy = policy;
    config.policy.local_steps = 20;
    TinyFederation federation(1, config, seen);
    ASSERT_TRUE(federation.run(24h));
    const RunState& state = federation.world.server().engine().state();
    EXPECT_EQ(state.latest, 6);
    EXPECT_FALSE(state.finished.empty());
    EXPECT_THAT(seen.exits, testing::ElementsAre(0, 0, 0));
    EXPECT_GE(federation.trainer.segments, 6);
    for (const auto& [id, facility] : federation.world.facilities()) {
      EXPECT_EQ(facility->scheduler().live(), 0) << id;
      EXPECT_EQ(facility->processes(), 0u) << id;
      EXPECT_EQ(facility->updates_left(), 0u) << id;
    }
  }
}

TEST(World, TheSameSeedTellsTheSameStory) {
  const auto story = [](std::uint64_t seed) {
    Witness nobody;
    TinyFederation federation(seed, TinyFederation::config(), nobody);
    EXPECT_TRUE(federation.run(24h));
    return federation.world.clock().trace().hex();
  };
  EXPECT_EQ(story(1), story(1));
  EXPECT_NE(story(1), story(2));
}

TEST(World, AKilledServerGoesOnFromItsJournal) {
  Seen seen;
  TinyFederation federation(3, TinyFederation::config(), seen);
  Clock& clock = federation.world.clock();
  SimulatedServer& server = federation.world.server();
  Prng chance(9);
  for (int minute = 1; minute <= 10; ++minute) {
    clock.schedule(Instant(std::chrono::minutes(minute)), "kill", [&, minute] {
      if (minute % 2 == 0) {
        server.kill();
      } else {
        server.fail_power(chance);
      }
      clock.after(7s, "restart", [&] { server.start(); });
    });
  }
  ASSERT_TRUE(federation.run(24h));
  EXPECT_GE(server.processes(), 6);
  EXPECT_EQ(server.engine().state().latest, 6);
}

TEST(World, ModelsAreTheSumsOfTheirUpdates) {
  struct Adds : Witness {
    void on_reduced(const StartReduce& action, const Bytes& current,
                    const std::vector<SharedBytes>& updates, const std::vector<SharedBytes>&,
                    const Bytes& model) override {
      for (std::size_t i = 0; i < to_floats(model).size(); ++i) {
        double sum = to_floats(current)[i];
        for (std::size_t k = 0; k < updates.size(); ++k) {
          sum += action.plan.updates[k].weight * to_floats(*updates[k])[i];
        }
        EXPECT_NEAR(to_floats(model)[i], sum, 1e-5);
      }
      ++count;
    }
    int count = 0;
  } adds;
  TinyFederation federation(4, TinyFederation::config(), adds);
  ASSERT_TRUE(federation.run(24h));
  EXPECT_EQ(adds.count, 6);
}

}  // namespace
}  // namespace fedqueue::simulation
