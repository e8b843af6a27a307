#include "simulation/experiment/experiment.h"

#include <gtest/gtest.h>

#include <set>

namespace fedqueue::simulation {
namespace {

const char* const kFile =
    "[experiment]\n"
    "name = trial\n"
    "seeds = 3\n"
    "first_seed = 5\n"
    "tuning_seeds = 2\n"
    "[setting.calm]\n"
    "queue_sigma = 0.4\n"
    "[setting.wild]\n"
    "queue_sigma = 1.5\n"
    "step_seconds = 0.1, 0.2\n"
    "[defaults]\n"
    "facilities = 6\n"
    "horizon = 120\n"
    "[policy.fedavg]\n"
    "policy = fedavg\n"
    "local_steps = 50\n"
    "tune.lr_base = 0.05, 0.1, 0.2\n"
    "tune.local_steps = 50, 100\n"
    "[policy.mine]\n"
    "role = ours\n";

TEST(Experiment, IsReadFromAFileWithDefaultsWhereverTheyStand) {
  const auto experiment = parse_experiment(kFile, "trial.ini");
  ASSERT_TRUE(experiment) << experiment.error().message;
  EXPECT_EQ(experiment->name, "trial");
  ASSERT_EQ(experiment->settings.size(), 2u);
  EXPECT_EQ(experiment->settings[0].facilities, 6);
  EXPECT_EQ(experiment->settings[1].horizon_s, 120);
  EXPECT_EQ(experiment->setting("wild")->queue_sigma, 1.5);
  EXPECT_EQ(value_for(experiment->setting("wild")->step_s, 0), 0.1);
  EXPECT_EQ(value_for(experiment->setting("wild")->step_s, 5), 0.2);
  ASSERT_EQ(experiment->policies.size(), 2u);
  EXPECT_EQ(experiment->policy("mine")->role, Role::ours);
  EXPECT_EQ(to_text(experiment->policy("fedavg")->options), "policy=fedavg local_steps=50");
  EXPECT_EQ(experiment->policy("nobody"), nullptr);
}

TEST(Experiment, ASettingMayBeAsTheDefaultsSay) {
  const auto experiment = parse_experiment(
      "[defaults]\nfacilities = 6\n[setting.plain]\n[setting.other]\nfacilities = 2\n"
      "[policy.p]\nrole = ours\n",
      "e.ini");
  ASSERT_TRUE(experiment) << experiment.error().message;
  ASSERT_EQ(experiment->settings.size(), 2u);
  EXPECT_EQ(experiment->settings[0].name, "plain");
  EXPECT_EQ(experiment->settings[0].facilities, 6);
}

TEST(Experiment, NobodyIsTunedOnSeedsThatAreReported) {
  const auto experiment = parse_experiment(kFile, "trial.ini");
  ASSERT_TRUE(experiment);
  std::set<std::uint64_t> seeds;
  for (const auto seed : experiment->reported_seeds()) seeds.insert(seed);
  EXPECT_EQ(seeds, (std::set<std::uint64_t>{5, 6, 7}));
  for (const auto seed : experiment->seeds_for_tuning()) EXPECT_EQ(seeds.count(seed), 0u);
  EXPECT_EQ(experiment->seeds_for_tuning().size(), 2u);
}

TEST(Experiment, MistakesAreNamedByTheirLine) {
  const auto message = [](const std::string& text) {
    const auto experiment = parse_experiment(text, "e.ini");
    return experiment ? std::string("none")
                      : experiment.error().message + " | " + experiment.error().cure;
  };
  EXPECT_EQ(message("[setting.a]\nworl = off\n"),
            "read e.ini line 2: 'worl' is not an option of a setting | Did you mean world?");
  EXPECT_EQ(message("[setting.a]\nworld = of\n"),
            "read e.ini line 2: set world: expected lognormal, fixed, off, replay or site, got "
            "'of' | ");
  EXPECT_NE(message("[experiment]\nseeds = 0\n").find("line 2: set seeds"), std::string::npos);
  EXPECT_NE(message("[polcy.a]\nx = 1\n").find("belongs to no section"), std::string::npos);
  EXPECT_NE(message("[setting.A]\nworld = off\n").find("is not a name"), std::string::npos);
  EXPECT_NE(message("[setting.a]\nworld = off\n").find("it has no policy"), std::string::npos);
  EXPECT_NE(message("[setting.a]\nworld = replay\n[policy.p]\nrole = ours\n").find("needs trace"),
            std::string::npos);
}

TEST(Experiment, EverySettingIsWrittenAsItIsRead) {
  Setting setting;
  setting.name = "x";
  setting.queue_mean_s = {0.5, 2};
  setting.eligible_jobs_max = 3;
  setting.world = WorldKind::site;
  setting.early_submission = false;
  Setting copy;
  for (const auto& [name, value] : setting.options()) {
    const Status status = copy.set(name, value);
    if (name == "trace" || name == "targets_shown") continue;  // empty: nothing to read
    EXPECT_TRUE(status) << name << " = " << value;
  }
  EXPECT_EQ(copy.queue_mean_s, setting.queue_mean_s);
  EXPECT_EQ(copy.eligible_jobs_max, 3);
  EXPECT_EQ(copy.world, WorldKind::site);
  EXPECT_FALSE(copy.early_submission);
}

TEST(Choices, BeginWithTheUntunedOneAndKeepToTheBudget) {
  const auto experiment = parse_experiment(kFile, "trial.ini");
  ASSERT_TRUE(experiment);
  const PolicySpec& policy = *experiment->policy("fedavg");
  const auto all = choices_of(policy, 100);
  EXPECT_EQ(all.size(), 6u);
  EXPECT_EQ(to_text(all[0]), "lr_base=0.05 local_steps=50");
  std::set<std::string> distinct;
  for (const auto& choice : all) distinct.insert(to_text(choice));
  EXPECT_EQ(distinct.size(), 6u);
  const auto few = choices_of(policy, 3);
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few[0], all[0]);
  const auto none = choices_of(*experiment->policy("mine"), 5);
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(to_text(none[0]), "-");
}

}  // namespace
}  // namespace fedqueue::simulation
