#include "fedclient/recipe/training_settings.h"

#include <gmock/gmock.h>

#include <set>
#include <type_traits>

namespace fedqueue {
namespace {

using testing::HasSubstr;

static_assert(std::is_trivially_copyable_v<TrainingSettings>);

TEST(TrainingSettings, TheTablesDefaultsAreTheStructs) {
  std::map<std::string, std::string> defaults;
  std::set<std::string> names;
  for (const OptionSpec& option : training_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
    if (!option.built_in.empty()) defaults[option.name] = option.built_in;
  }
  const auto settings = training_settings(defaults);
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(*settings, TrainingSettings());
}

TEST(TrainingSettings, WhatIsSaidReplacesWhatWasThere) {
  TrainingSettings own;
  own.batch_size = 32;
  own.optimizer.momentum = 0.5;
  const auto settings = training_settings({{"batch_size", "128"},
                                           {"optimizer", "lamb"},
                                           {"lr_schedule", "cosine"},
                                           {"lr_schedule_steps", "500"},
                                           {"weight_decay", "0"},
                                           {"adascale", "yes"},
                                           {"sampling", "loss_weighted"},
                                           {"lr_warm_up", "auto"},
                                           {"lr_warm_up_test", "kernel"},
                                           {"unheard_of", "1"}},
                                          own);
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->batch_size, 128);
  EXPECT_EQ(settings->optimizer.kind, LocalOptimizer::lamb);
  EXPECT_EQ(settings->optimizer.momentum, 0.5);
  EXPECT_EQ(settings->optimizer.decay(), 0) << "said, so not the optimiser's default";
  EXPECT_EQ(settings->learning_rate.schedule, LrSchedule::cosine);
  EXPECT_EQ(settings->learning_rate.steps, 500);
  EXPECT_TRUE(settings->adascale);
  EXPECT_EQ(settings->sampling, Sampling::loss_weighted);
  EXPECT_TRUE(settings->learning_rate.auto_warm_up);
  EXPECT_EQ(settings->learning_rate.warm_up_test, LossTest::kernel);
}

TEST(TrainingSettings, SayHowInputsAreChanged) {
  const auto settings = training_settings(
      {{"augment_flip", "true"}, {"augment_crop", "4"}, {"normalize", "0.5,0.4/0.25,0.2"}});
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_TRUE(settings->augmentation.flip);
  EXPECT_EQ(settings->augmentation.crop, 4);
  EXPECT_EQ(settings->augmentation.normalization.channels, 2);
  const auto bad = training_settings({{"normalize", "0.5"}});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::usage);
  EXPECT_THAT(bad.error().message, HasSubstr("'0.5'"));
}

TEST(TrainingSettings, OptimisersHaveTheirOwnDefaults) {
  OptimizerSettings settings;
  EXPECT_EQ(settings.decay(), 0);
  settings.kind = LocalOptimizer::lars;
  EXPECT_EQ(settings.decay(), 5e-4);
  settings.kind = LocalOptimizer::adamw;
  EXPECT_EQ(settings.decay(), 0.01);
  EXPECT_EQ(settings.stabilizer(), 1e-8);
  settings.kind = LocalOptimizer::lans;
  EXPECT_EQ(settings.stabilizer(), 1e-6);
}

TEST(TrainingSettings, ValuesThatAreNoneAreNamed) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"batch_size", "0"},
                                                        {"momentum", "nan"},
                                                        {"weight_decay", "-1"},
                                                        {"seed", "x"},
                                                        {"optimizer", "adam"},
                                                        {"lr_schedule", "linear"},
                                                        {"nesterov", "perhaps"},
                                                        {"beta2", "1"}}) {
    const auto settings = training_settings({{name, value}});
    ASSERT_FALSE(settings) << name;
    EXPECT_EQ(settings.error().code, Code::usage);
    EXPECT_THAT(settings.error().message, HasSubstr(name));
  }
}

TEST(TrainingSettings, AMisspeltNameNamesTheNearest) {
  EXPECT_TRUE(check_training_name("batch_size"));
  const Status status = check_training_name("batch_sise");
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().cure, HasSubstr("batch_size"));
}

TEST(TrainingSettings, ContradictionsAreRefused) {
  TrainingSettings settings;
  EXPECT_TRUE(check_training(settings, 64));
  EXPECT_FALSE(check_training(settings, 65)) << "more ranks than samples in a batch";
  settings.batch_per_rank = true;
  EXPECT_TRUE(check_training(settings, 65));
  EXPECT_EQ(settings.global_batch(4), 256);

  TrainingSettings nesterov;
  nesterov.optimizer.nesterov = true;
  EXPECT_TRUE(check_training(nesterov, 1));
  nesterov.optimizer.kind = LocalOptimizer::adamw;
  EXPECT_FALSE(check_training(nesterov, 1));

  TrainingSettings scaled;
  scaled.adascale = true;
  EXPECT_TRUE(check_training(scaled, 1));
  scaled.learning_rate.reference_batch = 64;
  EXPECT_FALSE(check_training(scaled, 1));
  scaled.learning_rate.reference_batch = 0;
  scaled.learning_rate.auto_warm_up = true;
  scaled.learning_rate.warm_up_steps = 100;
  EXPECT_FALSE(check_training(scaled, 1)) << "both look for the rate";
  scaled.adascale = false;
  EXPECT_TRUE(check_training(scaled, 1));

  TrainingSettings growing;
  growing.learning_rate.batch_growth = 5;
  EXPECT_FALSE(check_training(growing, 1)) << "growth is for step";
}

TEST(TrainingSettings, ControlVariatesWantPlainSgd) {
  TrainingSettings settings;
  EXPECT_FALSE(check_controls(settings)) << "momentum is 0.9 by default";
  settings.optimizer.momentum = 0;
  EXPECT_TRUE(check_controls(settings));
  settings.optimizer.clip_norm = 1;
  EXPECT_FALSE(check_controls(settings));
  settings.optimizer.clip_norm = 0;
  settings.optimizer.kind = LocalOptimizer::lamb;
  const Status status = check_controls(settings);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("lamb"));
}

}  // namespace
}  // namespace fedqueue
