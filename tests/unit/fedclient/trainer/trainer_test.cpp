#include "fedclient/trainer/trainer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "fedclient/trainer/trainer_state.h"
#include "fixture.h"

namespace fedqueue {
namespace {

class TrainerTest : public TrainingTest {
 protected:
  TrainerTest() {
    options_.training.batch_size = 16;
    options_.training.seed = 3;
    options_.snapshot_s = 0;
  }
  std::unique_ptr<Trainer> make_trainer() {
    Result<std::unique_ptr<Trainer>> trainer =
        Trainer::create(options_, *collective_, picture_dataset(200));
    EXPECT_TRUE(trainer);
    return std::move(*trainer);
  }

  // Of the parameters of a model's file, in its network's order.
  static std::vector<ParameterRange> ranges_of(const std::filesystem::path& model) {
    const auto spec = spec_from_metadata(tensor::Reader::open(model)->manifest().metadata);
    return (*Network::create(*spec, {}))->ranges();
  }

  TrainerOptions options_;
  std::unique_ptr<Collective> collective_ = make_single_collective();
};

TEST_F(TrainerTest, LearnsAndReportsWhatItDid) {
  const auto model = make_model();
  const Dataset held_out = picture_dataset(100, 4, 77);
  const Result<EvaluationResult> before = evaluate(model, held_out);
  ASSERT_TRUE(before);
  auto trainer = make_trainer();
  const Result<SegmentResult> result = trainer->run({0, 60, 0.02, model});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->steps_run, 60);
  EXPECT_EQ(result->samples, 60 * 16);
  EXPECT_FALSE(result->stopped_early);
  EXPECT_GT(result->seconds_per_step, 0);
  ASSERT_TRUE(trainer->write_model(directory_ / "after.safetensors"));
  const Result<EvaluationResult> after = evaluate(directory_ / "after.safetensors", held_out);
  ASSERT_TRUE(after);
  EXPECT_LT(after->loss, before->loss);
  EXPECT_GT(after->accuracy, 0.9);
  EXPECT_EQ(after->samples, 100);
}

TEST_F(TrainerTest, TheUpdateIsTheDifferenceAndCountersAreAbsolute) {
  const auto model = make_model("cnn");
  auto trainer = make_trainer();
  ASSERT_TRUE(trainer->run({0, 5, 0.05, model}));
  ASSERT_TRUE(trainer->write_update(directory_ / "update.safetensors"));
  ASSERT_TRUE(trainer->write_model(directory_ / "after.safetensors"));
  for (const char* name : {"conv1.weight", "fc.bias", "bn2.running_var"}) {
    const auto base = floats(model, name);
    const auto delta = floats(directory_ / "update.safetensors", name);
    const auto after = floats(directory_ / "after.safetensors", name);
    for (std::size_t i = 0; i < base.size(); ++i) ASSERT_EQ(delta[i], after[i] - base[i]) << name;
  }
  EXPECT_EQ(counter(directory_ / "update.safetensors", "bn1.num_batches_tracked"), 5);
  // Nothing about the structure or the metadata changes.
  const auto expected = tensor::Reader::open(model)->manifest();
  const auto got = tensor::Reader::open(directory_ / "update.safetensors")->manifest();
  EXPECT_THAT(tensor::differences(expected, got), ::testing::IsEmpty());
  EXPECT_EQ(got.metadata, expected.metadata);
}

TEST_F(TrainerTest, SegmentsContinueInTheDataAndTheMomentum) {
  const auto model = make_model();
  auto whole = make_trainer();
  ASSERT_TRUE(whole->run({0, 30, 0.02, model}));
  ASSERT_TRUE(whole->write_model(directory_ / "whole.safetensors"));
  auto parts = make_trainer();
  ASSERT_TRUE(parts->run({0, 13, 0.02, model}));
  ASSERT_TRUE(parts->write_model(directory_ / "half.safetensors"));
  ASSERT_TRUE(parts->run({1, 17, 0.02, directory_ / "half.safetensors"}));
  ASSERT_TRUE(parts->write_model(directory_ / "parts.safetensors"));
  EXPECT_EQ(floats(directory_ / "whole.safetensors", "fc1.weight"),
            floats(directory_ / "parts.safetensors", "fc1.weight"));
}

TEST_F(TrainerTest, StopsAfterTheStepInWhichItIsTold) {
  const auto model = make_model();
  auto trainer = make_trainer();
  const auto told_at = [](std::int64_t step) {
    return [step](std::int64_t done) { return done >= step; };
  };
  const Result<SegmentResult> some = trainer->run({0, 50, 0.02, model}, told_at(7));
  ASSERT_TRUE(some);
  EXPECT_EQ(some->steps_run, 8);
  EXPECT_TRUE(some->stopped_early);
  ASSERT_TRUE(trainer->write_update(directory_ / "update.safetensors"));
  const Result<SegmentResult> none = trainer->run({0, 50, 0.02, model}, told_at(0));
  ASSERT_TRUE(none);
  EXPECT_EQ(none->steps_run, 0);
  EXPECT_TRUE(none->stopped_early);
}

TEST_F(TrainerTest, SnapshotsHoldWhatHasBeenTrainedSoFar) {
  const auto model = make_model();
  options_.snapshot_s = 1e-9;
  auto trainer = make_trainer();
  std::vector<std::int64_t> steps;
  Trainer* running = trainer.get();
  ASSERT_TRUE(trainer->run({0, 4, 0.02, model}, {}, [&](const SegmentResult& so_far) {
    steps.push_back(so_far.steps_run);
    if (so_far.steps_run == 2) {
      EXPECT_TRUE(running->write_update(directory_ / "snapshot.safetensors"));
    }
  }));
  EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 3, 4));
  auto shorter = make_trainer();
  ASSERT_TRUE(shorter->run({0, 2, 0.02, model}));
  ASSERT_TRUE(shorter->write_update(directory_ / "two.safetensors"));
  EXPECT_EQ(floats(directory_ / "snapshot.safetensors", "fc2.weight"),
            floats(directory_ / "two.safetensors", "fc2.weight"));
}

TEST_F(TrainerTest, ALossThatIsNotFiniteStopsTheSegmentAndTheTrainerGoesOn) {
  const auto model = make_model();
  auto trainer = make_trainer();
  const Result<SegmentResult> broken = trainer->run({0, 50, 1e25, model});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::not_finite);
  EXPECT_THAT(broken.error().message, ::testing::StartsWith("step "));
  const Result<SegmentResult> sane = trainer->run({0, 20, 0.02, model});
  ASSERT_TRUE(sane);
  EXPECT_LT(sane->loss_mean, 2);
}

TEST_F(TrainerTest, AnUpdateThatIsNotFiniteIsNotWritten) {
  const auto model = make_model();
  options_.training.optimizer.weight_decay = 1e4;
  auto trainer = make_trainer();
  // One step: its own loss is still finite, the parameters after it are not.
  ASSERT_TRUE(trainer->run({0, 1, 3e38, model}));
  const Status written = trainer->write_update(directory_ / "update.safetensors");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::not_finite);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "update.safetensors"));
}

TEST_F(TrainerTest, WarmUpStartsWithASmallStep) {
  const auto model = make_model();
  options_.training.optimizer.momentum = 0;
  auto plain = make_trainer();
  ASSERT_TRUE(plain->run({0, 1, 0.1, model}));
  ASSERT_TRUE(plain->write_update(directory_ / "plain.safetensors"));
  options_.training.learning_rate.warm_up_steps = 10;
  auto warm = make_trainer();
  ASSERT_TRUE(warm->run({0, 1, 0.1, model}));
  ASSERT_TRUE(warm->write_update(directory_ / "warm.safetensors"));
  const auto full = floats(directory_ / "plain.safetensors", "fc1.bias");
  const auto small = floats(directory_ / "warm.safetensors", "fc1.bias");
  for (std::size_t i = 0; i < full.size(); ++i) ASSERT_NEAR(small[i], 0.1 * full[i], 1e-7);
}

TEST_F(TrainerTest, TheScheduleGoesOnFromOneSegmentToTheNext) {
  const auto model = make_model();
  options_.training.learning_rate.schedule = LrSchedule::cosine;
  options_.training.learning_rate.steps = 20;
  auto trainer = make_trainer();
  auto result = trainer->run({0, 11, 0.02, model});
  ASSERT_TRUE(result);
  EXPECT_NEAR(result->learning_rate, 0.01, 1e-12) << "half way after ten steps";
  result = trainer->run({0, 10, 0.02, model});
  ASSERT_TRUE(result);
  EXPECT_NEAR(result->learning_rate, 0, 1e-12) << "the end";
}

// One job of 30 steps, and two of 15 that hand on what they know.
TEST_F(TrainerTest, AnotherJobGoesOnWhereThisOneWas) {
  const auto model = make_model();
  const auto state = directory_ / "state.safetensors";
  for (const LocalOptimizer kind :
       {LocalOptimizer::sgd, LocalOptimizer::adamw, LocalOptimizer::lans}) {
    options_.training.optimizer.kind = kind;
    options_.training.learning_rate.schedule = LrSchedule::polynomial;
    options_.training.learning_rate.steps = 40;
    auto whole = make_trainer();
    ASSERT_TRUE(whole->run({0, 30, 0.01, model}));
    ASSERT_TRUE(whole->write_model(directory_ / "whole.safetensors"));

    auto first = make_trainer();
    ASSERT_TRUE(first->run({0, 15, 0.01, model}));
    ASSERT_TRUE(first->write_model(directory_ / "half.safetensors"));
    ASSERT_TRUE(first->keep(state));
    options_.training.seed = 77;  // of another job: the order of the first one goes on
    auto second = make_trainer();
    ASSERT_TRUE(second->load(directory_ / "half.safetensors"));
    ASSERT_TRUE(second->resume(state));
    ASSERT_TRUE(second->run({0, 15, 0.01, {}}));
    ASSERT_TRUE(second->write_model(directory_ / "both.safetensors"));
    options_.training.seed = 3;
    EXPECT_EQ(floats(directory_ / "both.safetensors", "fc1.weight"),
              floats(directory_ / "whole.safetensors", "fc1.weight"))
        << to_text(kind);
  }
}

// What the warm-up knows of the losses goes on in another job as in another segment.
TEST_F(TrainerTest, AWarmUpThatFindsItsEndGoesOnInAnotherJob) {
  const auto model = make_model();
  const auto state = directory_ / "state.safetensors";
  options_.training.learning_rate.auto_warm_up = true;
  options_.training.learning_rate.warm_up_start = 1e-3;
  options_.training.learning_rate.warm_up_steps = 300;
  auto whole = make_trainer();
  const Result<SegmentResult> ended = whole->run({0, 320, 10, model});
  ASSERT_TRUE(ended) << ended.error().message;
  ASSERT_TRUE(whole->write_model(directory_ / "whole.safetensors"));
  EXPECT_LT(ended->learning_rate, 10) << "this task is lost at a rate of 10";
  EXPECT_GT(ended->learning_rate, 1e-2);

  auto first = make_trainer();
  ASSERT_TRUE(first->run({0, 100, 10, model}));
  ASSERT_TRUE(first->write_model(directory_ / "part.safetensors"));
  ASSERT_TRUE(first->keep(state));
  auto second = make_trainer();
  ASSERT_TRUE(second->load(directory_ / "part.safetensors"));
  ASSERT_TRUE(second->resume(state));
  const Result<SegmentResult> later = second->run({0, 220, 10, {}});
  ASSERT_TRUE(later);
  ASSERT_TRUE(second->write_model(directory_ / "both.safetensors"));
  EXPECT_EQ(later->learning_rate, ended->learning_rate);
  EXPECT_EQ(floats(directory_ / "both.safetensors", "fc1.weight"),
            floats(directory_ / "whole.safetensors", "fc1.weight"));
}

// 200 samples in batches of 16: the losses of the first epoch draw the second, across jobs too.
TEST_F(TrainerTest, SamplesThatCostMoreComeMoreOften) {
  const auto model = make_model();
  const auto state = directory_ / "state.safetensors";
  auto shuffled = make_trainer();
  ASSERT_TRUE(shuffled->run({0, 12, 0.02, model}));
  ASSERT_TRUE(shuffled->write_model(directory_ / "shuffled.safetensors"));
  options_.training.sampling = Sampling::loss_weighted;
  auto whole = make_trainer();
  ASSERT_TRUE(whole->run({0, 12, 0.02, model}));
  ASSERT_TRUE(whole->write_model(directory_ / "first.safetensors"));
  EXPECT_EQ(floats(directory_ / "first.safetensors", "fc1.weight"),
            floats(directory_ / "shuffled.safetensors", "fc1.weight"))
      << "nothing is known in the first epoch";
  ASSERT_TRUE(whole->keep(state));
  ASSERT_TRUE(whole->run({1, 20, 0.02, directory_ / "first.safetensors"}));
  ASSERT_TRUE(whole->write_model(directory_ / "whole.safetensors"));

  const auto ranges = ranges_of(directory_ / "whole.safetensors");
  const Result<TrainerState> first = read_trainer_state(state, ranges);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->data.position, (BatchPosition{0, 192}));
  EXPECT_TRUE(first->data.drawn_by.empty());
  EXPECT_EQ(std::count_if(first->data.losses.begin(), first->data.losses.end(),
                          [](float loss) { return loss < 0; }),
            8)
      << "not seen";

  for (const int threads : {0, 2}) {
    options_.loader_threads = threads;
    auto next = make_trainer();
    ASSERT_TRUE(next->load(directory_ / "first.safetensors"));
    ASSERT_TRUE(next->resume(state));
    ASSERT_TRUE(next->run({1, 5, 0.02, {}}));
    ASSERT_TRUE(next->write_model(directory_ / "middle.safetensors"));
    ASSERT_TRUE(next->keep(directory_ / "middle-state.safetensors"));
    auto last = make_trainer();
    ASSERT_TRUE(last->load(directory_ / "middle.safetensors"));
    ASSERT_TRUE(last->resume(directory_ / "middle-state.safetensors"));
    ASSERT_TRUE(last->run({2, 15, 0.02, {}}));
    ASSERT_TRUE(last->write_model(directory_ / "both.safetensors"));
    EXPECT_EQ(floats(directory_ / "both.safetensors", "fc1.weight"),
              floats(directory_ / "whole.safetensors", "fc1.weight"))
        << threads << " threads";
  }
  const Result<TrainerState> middle =
      read_trainer_state(directory_ / "middle-state.safetensors", ranges);
  ASSERT_TRUE(middle);
  EXPECT_EQ(middle->data.position, (BatchPosition{1, 80}))
      << "what was left of the epoch is not drawn";
  EXPECT_EQ(middle->data.drawn_by, first->data.losses);
}

TEST_F(TrainerTest, ARateIsFoundThatTrains) {
  const auto model = make_model();
  auto trainer = make_trainer();
  ASSERT_TRUE(trainer->load(model));
  const Result<RateSearch> search = trainer->find_rate(20, 1e-3);
  ASSERT_TRUE(search) << search.error().message;
  ASSERT_EQ(search->searches.size(), 20u);
  std::int64_t gradients = 0;
  for (const RateSearch::Search& one : search->searches) {
    EXPECT_LT(one.slope_at_zero, 0) << "a fresh optimiser goes downhill";
    gradients += 1 + static_cast<std::int64_t>(one.found.looks.size());
    const double last = one.found.looks.back().slope;
    EXPECT_TRUE(last >= 0 || one.found.looks.size() > 1) << "never left where it falls";
  }
  EXPECT_EQ(search->gradients, gradients);
  EXPECT_EQ(search->momentum, 0.9);
  EXPECT_DOUBLE_EQ(search->learning_rate, search->median_length * (1 - 0.9));

  TrainingSettings lamb = options_.training;
  lamb.optimizer.kind = LocalOptimizer::lamb;
  ASSERT_TRUE(trainer->configure(lamb));
  const Result<RateSearch> refused = trainer->find_rate(20, 1e-3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::usage);
  ASSERT_TRUE(trainer->configure(options_.training));

  const Result<SegmentResult> trained = trainer->run({0, 60, search->learning_rate, model});
  ASSERT_TRUE(trained) << trained.error().message;
  ASSERT_TRUE(trainer->write_model(directory_ / "after.safetensors"));
  const Result<EvaluationResult> after =
      evaluate(directory_ / "after.safetensors", picture_dataset(100, 4, 77));
  ASSERT_TRUE(after);
  EXPECT_GT(after->accuracy, 0.9);
}

// 200 samples, of which the batch may grow to 100: 10 steps of 16, 5 of 32, 3 of 64.
TEST_F(TrainerTest, TheBatchGrowsWithoutLosingItsPlaceInTheData) {
  const auto model = make_model();
  options_.training.learning_rate.schedule = LrSchedule::step;
  options_.training.learning_rate.step_every = 10;
  options_.training.learning_rate.batch_growth = 2;
  options_.training.learning_rate.batch_max = 100;
  auto whole = make_trainer();
  const Result<SegmentResult> result = whole->run({0, 18, 0.02, model});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->samples, 10 * 16 + 5 * 32 + 3 * 64);
  EXPECT_EQ(result->learning_rate, 0.02);
  ASSERT_TRUE(whole->write_model(directory_ / "whole.safetensors"));
  ASSERT_TRUE(whole->keep(directory_ / "state.safetensors"));
  const Result<TrainerState> state = read_trainer_state(
      directory_ / "state.safetensors", ranges_of(directory_ / "whole.safetensors"));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->data.position, (BatchPosition{2, 112})) << "512 samples";
  EXPECT_EQ(state->schedule.batch, 16);

  options_.loader_threads = 0;
  auto parts = make_trainer();
  ASSERT_TRUE(parts->run({0, 12, 0.02, model}));
  ASSERT_TRUE(parts->write_model(directory_ / "part.safetensors"));
  ASSERT_TRUE(parts->keep(directory_ / "state.safetensors"));
  auto rest = make_trainer();
  ASSERT_TRUE(rest->load(directory_ / "part.safetensors"));
  ASSERT_TRUE(rest->resume(directory_ / "state.safetensors"));
  ASSERT_TRUE(rest->run({0, 6, 0.02, {}}));
  ASSERT_TRUE(rest->write_model(directory_ / "both.safetensors"));
  EXPECT_EQ(floats(directory_ / "both.safetensors", "fc1.weight"),
            floats(directory_ / "whole.safetensors", "fc1.weight"));
}

TEST_F(TrainerTest, AnUnusableTrainingStateIsNamedAndChangesNothing) {
  const auto model = make_model();
  const auto state = directory_ / "state.safetensors";
  auto trainer = make_trainer();
  ASSERT_TRUE(trainer->run({0, 5, 0.01, model}));
  ASSERT_TRUE(trainer->keep(state));

  auto other = make_trainer();
  ASSERT_TRUE(other->load(make_model("lenet5")));
  EXPECT_EQ(other->resume(state).error().code, Code::model_mismatch);

  std::filesystem::resize_file(state, std::filesystem::file_size(state) - 100);
  auto again = make_trainer();
  ASSERT_TRUE(again->load(model));
  EXPECT_EQ(again->resume(state).error().code, Code::model_format);
  EXPECT_TRUE(again->run({0, 5, 0.01, {}}));
}

TEST_F(TrainerTest, ATrainingStateThatLeftTheNumbersIsNotKept) {
  const auto model = make_model();
  const auto file = directory_ / "state.safetensors";
  auto trainer = make_trainer();
  ASSERT_TRUE(trainer->run({0, 5, 0.01, model}));
  ASSERT_TRUE(trainer->keep(file));

  const auto ranges = (*Network::create({"mlp", 4, {{1, 12, 12}}}, {}))->ranges();
  Result<TrainerState> state = read_trainer_state(file, ranges);
  ASSERT_TRUE(state) << state.error().message;
  const auto before = state->optimizer;
  state->optimizer.first[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(write_trainer_state(file, *state, ranges).error().code, Code::not_finite);
  const auto after = read_trainer_state(file, ranges);
  ASSERT_TRUE(after) << "the old one is still there";
  EXPECT_EQ(after->optimizer, before);
}

TEST_F(TrainerTest, EveryOptimiserLearns) {
  const auto model = make_model();
  const Dataset held_out = picture_dataset(100, 4, 77);
  const auto before = evaluate(model, held_out);
  ASSERT_TRUE(before);
  for (const auto& [kind, rate] :
       std::vector<std::pair<LocalOptimizer, double>>{{LocalOptimizer::adamw, 0.003},
                                                      {LocalOptimizer::lars, 5},
                                                      {LocalOptimizer::lamb, 0.01},
                                                      {LocalOptimizer::lans, 0.01}}) {
    options_.training.optimizer.kind = kind;
    auto trainer = make_trainer();
    const auto result = trainer->run({0, 60, rate, model});
    ASSERT_TRUE(result) << to_text(kind) << ": " << result.error().message;
    ASSERT_TRUE(trainer->write_model(directory_ / "after.safetensors"));
    const auto after = evaluate(directory_ / "after.safetensors", held_out);
    ASSERT_TRUE(after);
    EXPECT_GT(after->accuracy, 0.9) << to_text(kind);
  }
}

TEST_F(TrainerTest, TheProximalTermHoldsTheModelNearItsBase) {
  const auto model = make_model();
  const auto distance = [&](double proximal) {
    options_.training.proximal = proximal;
    auto trainer = make_trainer();
    EXPECT_TRUE(trainer->run({0, 40, 0.02, model}));
    EXPECT_TRUE(trainer->write_update(directory_ / "update.safetensors"));
    double sum = 0;
    for (const float x : floats(directory_ / "update.safetensors", "fc1.weight")) sum += x * x;
    return sum;
  };
  EXPECT_LT(distance(1.0), distance(0.0));
}

TEST_F(TrainerTest, TheDatasetMustFitTheModel) {
  const auto path = directory_ / "other.safetensors";
  ASSERT_TRUE(init_model({{"mlp"}}, path));
  auto trainer = make_trainer();
  const Result<SegmentResult> result = trainer->run({0, 5, 0.02, path});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::data);
  EXPECT_EQ(evaluate(path, picture_dataset(10)).error().code, Code::data);
}

TEST_F(TrainerTest, ABatchLargerThanTheDatasetIsRefused) {
  const auto collective = make_single_collective();
  TrainerOptions options;
  options.training.batch_size = 11;
  const auto trainer = Trainer::create(options, *collective, picture_dataset(10));
  ASSERT_FALSE(trainer);
  EXPECT_EQ(trainer.error().code, Code::data);
  EXPECT_THAT(trainer.error().message, ::testing::HasSubstr("a batch of 11"));
  EXPECT_THAT(trainer.error().message, ::testing::HasSubstr("10"));
}

TEST_F(TrainerTest, AnOrderWithoutStepsOrRateIsRefused) {
  auto trainer = make_trainer();
  EXPECT_EQ(trainer->run({0, 0, 0.1, make_model()}).error().code, Code::usage);
  EXPECT_EQ(trainer->run({0, 5, std::nan(""), make_model()}).error().code, Code::usage);
}

TEST_F(TrainerTest, TheThreadsThatLoadDoNotChangeTheResult) {
  const auto model = make_model();
  options_.training.augmentation.flip = true;
  options_.training.augmentation.crop = 2;
  options_.training.augmentation.normalization = *parse_normalization("0.5/0.25");
  std::vector<std::vector<float>> results;
  for (const int threads : {0, 1, 3}) {
    options_.loader_threads = threads;
    auto trainer = make_trainer();
    const Result<SegmentResult> first = trainer->run({0, 11, 0.02, model});
    ASSERT_TRUE(first);
    EXPECT_GT(first->data_wait_seconds, 0);
    // Other settings begin another loader at the same place.
    TrainingSettings smaller = options_.training;
    smaller.batch_size = 5;
    ASSERT_TRUE(trainer->configure(smaller));
    ASSERT_TRUE(trainer->run({0, 9, 0.02, model}));
    ASSERT_TRUE(trainer->write_model(directory_ / "after.safetensors"));
    results.push_back(floats(directory_ / "after.safetensors", "fc1.weight"));
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST_F(TrainerTest, WhatIsTrainedNormalisedIsJudgedNormalised) {
  const auto model = make_model();
  const Normalization normalization = *parse_normalization("0.5/2");
  options_.training.augmentation.normalization = normalization;
  auto trainer = make_trainer();
  ASSERT_TRUE(trainer->run({0, 100, 0.05, model}));
  ASSERT_TRUE(trainer->write_model(directory_ / "after.safetensors"));
  const Dataset held_out = picture_dataset(100, 4, 77);
  const auto judged = evaluate(directory_ / "after.safetensors", held_out, {}, normalization);
  const auto otherwise = evaluate(directory_ / "after.safetensors", held_out);
  ASSERT_TRUE(judged && otherwise);
  EXPECT_GT(judged->accuracy, 0.9);
  EXPECT_NE(judged->loss, otherwise->loss);
  const auto two = parse_normalization("0.5,0.5/2,2");
  EXPECT_EQ(evaluate(directory_ / "after.safetensors", held_out, {}, *two).error().code,
            Code::usage);
}

TEST_F(TrainerTest, AugmentationMustFitTheData) {
  auto trainer = make_trainer();
  TrainingSettings settings = options_.training;
  settings.augmentation.normalization = *parse_normalization("1,2,3/1,2,3");
  EXPECT_EQ(trainer->configure(settings).error().code, Code::usage);
  options_.training = settings;
  EXPECT_EQ(Trainer::create(options_, *collective_, picture_dataset(20)).error().code, Code::usage);
}

// A stream in which each token is one more than the last, so that the next one can be known.
Dataset counting_tokens(std::int64_t count) {
  auto tokens = std::make_shared<std::vector<std::uint16_t>>();
  for (std::int64_t i = 0; i < count; ++i) tokens->push_back(static_cast<std::uint16_t>(i % 16));
  Dataset dataset;
  dataset.input = {{1}, true};
  dataset.dtype = tensor::DType::u16;
  dataset.classes = 16;
  dataset.values = std::as_bytes(std::span(*tokens));
  dataset.owner = std::move(tokens);
  return dataset;
}

TEST_F(TrainerTest, TokensAreCutToTheModelsContext) {
  NetworkSpec spec{"gpt", 16, {{8}, true}};
  spec.layers = 1;
  spec.heads = 2;
  spec.width = 32;
  const std::filesystem::path model = directory_ / "gpt.safetensors";
  ASSERT_TRUE(init_model({spec, 1}, model));
  options_.training.optimizer.kind = LocalOptimizer::adamw;
  Result<std::unique_ptr<Trainer>> trainer =
      Trainer::create(options_, *collective_, counting_tokens(1000));
  ASSERT_TRUE(trainer);
  const Result<SegmentResult> result = (*trainer)->run({0, 80, 0.01, model});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_TRUE((*trainer)->write_model(directory_ / "after.safetensors"));
  const Result<EvaluationResult> judged =
      evaluate(directory_ / "after.safetensors", counting_tokens(100));
  ASSERT_TRUE(judged) << judged.error().message;
  EXPECT_EQ(judged->samples, 12);
  EXPECT_GT(judged->accuracy, 0.9);
  Result<std::unique_ptr<Trainer>> short_of =
      Trainer::create(options_, *collective_, counting_tokens(8));
  ASSERT_TRUE(short_of);
  EXPECT_EQ((*short_of)->run({0, 1, 0.01, model}).error().code, Code::data);
  options_.training.sampling = Sampling::balanced;
  EXPECT_EQ(Trainer::create(options_, *collective_, counting_tokens(90)).error().code, Code::usage);
}

TEST_F(TrainerTest, ASampleThatIsNotFiniteEndsTheTraining) {
  auto values = std::make_shared<std::vector<float>>(20 * 144, 0.5f);
  values->at(7 * 144 + 3) = std::numeric_limits<float>::quiet_NaN();
  Dataset dataset;
  dataset.input = {{1, 12, 12}};
  dataset.dtype = tensor::DType::f32;
  dataset.values = std::as_bytes(std::span(*values));
  dataset.owner = values;
  dataset.labels.assign(20, 1);
  dataset.classes = 2;
  Result<std::unique_ptr<Trainer>> trainer =
      Trainer::create(options_, *collective_, std::move(dataset));
  ASSERT_TRUE(trainer);
  const Result<SegmentResult> result = (*trainer)->run({0, 3, 0.01, make_model()});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::data);
  EXPECT_THAT(result.error().message, ::testing::HasSubstr("sample 7"));
}

}  // namespace
}  // namespace fedqueue
