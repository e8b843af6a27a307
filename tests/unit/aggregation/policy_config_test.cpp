#include "aggregation/policy/policy_config.h"

#include <gmock/gmock.h>

#include "aggregation/policy/policy.h"

namespace fedqueue {
namespace {

using testing::HasSubstr;

TEST(PolicyConfig, DefaultsDependOnPolicyAndSemantics) {
  PolicyConfig config;
  const PolicyConfig corrected = config.effective();
  EXPECT_EQ(corrected.weights, WeightRule::participation);
  EXPECT_EQ(corrected.staleness_max, 4);
  EXPECT_EQ(corrected.staleness_fn->text(), "harmonic:0.5");
  EXPECT_EQ(corrected.q_init_s, std::nullopt);
  EXPECT_EQ(corrected.scale_learning_rate, false);
  EXPECT_TRUE(config.predictor_config().prior_from_first_observation);

  config.semantics = Semantics::published;
  const PolicyConfig published = config.effective();
  EXPECT_EQ(published.weights, WeightRule::steps);
  EXPECT_EQ(published.staleness_max, std::nullopt);
  EXPECT_EQ(published.staleness_fn->text(), "constant");
  EXPECT_EQ(published.q_init_s, 2);
  EXPECT_EQ(published.theta_s, 60);
  EXPECT_EQ(published.scale_learning_rate, true);
  EXPECT_EQ(published.share_cap, 1);
  EXPECT_FALSE(config.predictor_config().prior_from_first_observation);
  EXPECT_EQ(config.predictor_config().kind, WaitPredictorKind::ewma);

  config.policy = PolicyKind::fedavg;
  const PolicyConfig fedavg = config.effective();
  EXPECT_EQ(fedavg.weights, WeightRule::samples);
  EXPECT_EQ(fedavg.staleness_max, 4);
  EXPECT_EQ(fedavg.staleness_fn->text(), "constant");
}

TEST(PolicyConfig, ExplicitValuesAreKeptSoThatCorrectionsCanBeAblated) {
  PolicyConfig config;
  config.semantics = Semantics::published;
  config.weights = WeightRule::samples;
  config.staleness_max = 2;
  config.theta_s = 5;
  const PolicyConfig effective = config.effective();
  EXPECT_EQ(effective.weights, WeightRule::samples);
  EXPECT_EQ(effective.staleness_max, 2);
  EXPECT_EQ(effective.theta_s, 5);
  EXPECT_EQ(effective.effective().options(), effective.options());
}

TEST(PolicyConfig, ShortRoundsGetAShortSafetyTime) {
  PolicyConfig config;
  config.t_sync_s = 10;
  EXPECT_TRUE(config.validate());
  EXPECT_DOUBLE_EQ(*config.effective().theta_s, 1);
}

TEST(PolicyConfig, TextGoesInAndOutUnchanged) {
  PolicyConfig config;
  const std::pair<const char*, const char*> options[] = {{"policy", "fedqueue"},
                                                         {"semantics", "published"},
                                                         {"t_sync_s", "7200"},
                                                         {"theta_s", "30.5"},
                                                         {"alpha_queue", "0.3"},
                                                         {"weights", "samples"},
                                                         {"staleness_fn", "hinge:10,4"},
                                                         {"staleness_max", "-1"},
                                                         {"scale_learning_rate", "false"},
                                                         {"wait_factor", "harmonic"},
                                                         {"wait_predictor", "log_ewma"},
                                                         {"lr_base", "0.1"}};
  for (const auto& [name, value] : options) ASSERT_TRUE(config.set(name, value)) << name;
  EXPECT_TRUE(config.validate());
  for (const auto& [name, value] : options)
    EXPECT_THAT(config.options(), testing::Contains(testing::Pair(name, value)));
  PolicyConfig again;
  for (const auto& [name, value] : config.options()) ASSERT_TRUE(again.set(name, value)) << name;
  EXPECT_EQ(again.options(), config.options());
}

TEST(PolicyConfig, TakesTheReferenceNames) {
  PolicyConfig config;
  for (const auto& [name, value] :
       {std::pair{"t_sync", "10"}, {"theta", "2"}, {"q_init", "0.9"}, {"beta_queue", "0.25"}})
    ASSERT_TRUE(config.set(name, value)) << name;
  EXPECT_EQ(config.t_sync_s, 10);
  EXPECT_EQ(config.theta_s, 2);
  EXPECT_EQ(config.q_init_s, 0.9);
  EXPECT_EQ(config.alpha_queue, 0.25);
}

TEST(PolicyConfig, NamesTheOptionThatWasMeant) {
  PolicyConfig config;
  const Status status = config.set("stalness_max", "3");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::usage);
  EXPECT_THAT(status.error().cure, HasSubstr("staleness_max"));
  EXPECT_THAT(config.set("weights", "sample").error().cure, HasSubstr("samples"));
  EXPECT_THAT(config.set("quorum", "two").error().message, HasSubstr("quorum"));
}

TEST(PolicyConfig, RefusesEachSettingThatCannotWork) {
  const std::pair<const char*, const char*> bad[] = {{"t_sync_s", "0"},
                                                     {"t_sync_s", "inf"},
                                                     {"admission_tolerance", "-0.1"},
                                                     {"quorum", "0"},
                                                     {"staleness_max", "-2"},
                                                     {"theta_s", "-1"},
                                                     {"theta_s", "3600"},
                                                     {"q_init_s", "-1"},
                                                     {"alpha_queue", "0"},
                                                     {"alpha_queue", "1.5"},
                                                     {"alpha_compute", "0"},
                                                     {"alpha_admission", "-1"},
                                                     {"warm_up_steps", "0"},
                                                     {"local_steps", "0"},
                                                     {"lr_base", "0"},
                                                     {"lr_base", "nan"},
                                                     {"walltime_margin_s", "-1"},
                                                     {"segments_per_job", "-1"},
                                                     {"gamma", "0"},
                                                     {"m_min", "0"},
                                                     {"a_max", "0"},
                                                     {"share_cap", "0"},
                                                     {"share_cap", "1.5"},
                                                     {"eta_global", "0"},
                                                     {"round_timer_s", "0"},
                                                     {"wait_factor_beta", "-1"}};
  for (const auto& [name, value] : bad) {
    PolicyConfig config;
    const Status set = config.set(name, value);
    const Status status = set ? config.validate() : set;
    ASSERT_FALSE(status) << name << " = " << value;
    EXPECT_EQ(status.error().code, Code::usage);
    EXPECT_THAT(status.error().message, HasSubstr(name)) << value;
  }
  EXPECT_TRUE(PolicyConfig{}.validate());
}

TEST(Policy, SaysHowItTreatsFacilities) {
  PolicyConfig config;
  const auto corrected = make_policy(config);
  EXPECT_EQ(corrected->name(), "fedqueue-corrected");
  EXPECT_FALSE(corrected->pins_base_at_plan());
  EXPECT_FALSE(corrected->holds_facility_until_publish());
  EXPECT_DOUBLE_EQ(*corrected->round_timer_s(), 4140);

  config.semantics = Semantics::published;
  const auto published = make_policy(config);
  EXPECT_EQ(published->name(), "fedqueue-published");
  EXPECT_TRUE(published->pins_base_at_plan());
  EXPECT_TRUE(published->holds_facility_until_publish());
  EXPECT_TRUE(published->answers_after_publish());
  EXPECT_DOUBLE_EQ(*published->round_timer_s(), 4140);

  config.policy = PolicyKind::fedavg;
  const auto fedavg = make_policy(config);
  EXPECT_EQ(fedavg->name(), "fedavg");
  EXPECT_EQ(fedavg->round_timer_s(), std::nullopt);
}

}  // namespace
}  // namespace fedqueue
