// What users rely on of control variates at a facility: the numbers of SCAFFOLD, and that a
// facility's own outlive its jobs and count exactly the updates that the server took.
#include "fedclient/trainer/control_variates.h"

#include <gmock/gmock.h>

#include "fedclient/session/snapshot.h"
#include "fixture.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

std::unique_ptr<Network> mlp() {
  return std::move(*Network::create({"mlp", 4, {{1, 12, 12}}}, {}));
}

// Every parameter becomes this value.
void fill_parameters(Network& network, float value) {
  std::vector<float> state(network.manifest().data_bytes / sizeof(float), value);
  ASSERT_TRUE(network.load(std::as_bytes(std::span(state))));
}

void fill_gradients(Network& network, float value) {
  std::fill_n(network.gradient().data, network.parameters(), value);
}

float first_parameter(Network& network) {
  std::vector<float> state(network.manifest().data_bytes / sizeof(float));
  EXPECT_TRUE(network.store(std::as_writable_bytes(std::span(state))));
  for (const float value : state) EXPECT_EQ(value, state.front()) << "all were treated alike";
  return state.front();
}

// y = 1, g = 0.6, c_k = 0.3, c = 0.5, η = 0.05.
TEST(ControlVariates, AStepFollowsTheCorrectedGradient) {
  auto network = mlp();
  fill_parameters(*network, 1);
  fill_gradients(*network, 0.6f);
  const tensor::Manifest layout = *tensor::controls_of(network->manifest());
  const std::vector<float> correction(layout.data_bytes / sizeof(float), 0.5f - 0.3f);
  ASSERT_TRUE(network->set_correction(layout, correction));
  LocalStep step;
  step.optimizer.momentum = 0;
  step.learning_rate = 0.05;
  step.correct = true;
  ASSERT_TRUE(network->apply(step));
  EXPECT_NEAR(first_parameter(*network), 0.96, 1e-7);
}

// FedProx: x = 1.3 from the base 1, g = 0.5, μ = 0.1, η = 0.1.
TEST(ProximalTerm, FollowsTheWorkedExample) {
  auto network = mlp();
  fill_parameters(*network, 1);
  network->set_anchor();
  fill_parameters(*network, 1.3f);
  fill_gradients(*network, 0.5f);
  LocalStep step;
  step.optimizer.momentum = 0;
  step.learning_rate = 0.1;
  step.proximal = 0.1;
  ASSERT_TRUE(network->apply(step));
  EXPECT_NEAR(first_parameter(*network), 1.247, 2e-7);
}

class ControlStore : public TrainingTest {
 protected:
  ControlStore() {
    layout_ = *tensor::controls_of(*tensor::lay_out({{"w", tensor::DType::f32, {2}, 0, 0}}));
  }
  // An update with these differences lies where it lies until the server answers.
  Snapshot update(const std::string& id, std::vector<float> differences) {
    Snapshot snapshot;
    snapshot.id = UpdateId(id);
    snapshot.update = *snapshot_file(directory_ / "job", snapshot.id);
    snapshot.controls = controls_;
    const auto both =
        *tensor::with_controls(*tensor::lay_out({{"w", tensor::DType::f32, {2}, 0, 0}}));
    std::vector<float> values = std::move(differences);  // fedqueue.control.w, then w
    values.resize(4, 77);
    auto writer = tensor::Writer::create(snapshot.update, both);
    EXPECT_TRUE(writer->write(std::as_bytes(std::span(values))));
    EXPECT_TRUE(writer->finish());
    EXPECT_TRUE(write_snapshot_note(snapshot));
    return snapshot;
  }
  std::vector<float> own() {
    const auto values = load_own_controls(controls_, layout_);
    EXPECT_TRUE(values) << values.error().message;
    return values ? *values : std::vector<float>();
  }

  tensor::Manifest layout_;
  std::filesystem::path controls_ = directory_ / "controls-mnist";
};

TEST_F(ControlStore, AreZeroBeforeTheFirstUpdate) { EXPECT_THAT(own(), ElementsAre(0, 0)); }

TEST_F(ControlStore, CountWhatTheServerTookAndNothingElse) {
  settle_snapshot(update("a.1.0.1", {1, 2}), Disposition::counted);
  EXPECT_THAT(own(), ElementsAre(1, 2));
  settle_snapshot(update("a.1.0.2", {10, 10}), Disposition::rejected);
  EXPECT_THAT(own(), ElementsAre(1, 2)) << "a refused update leaves them as they are";
  settle_snapshot(update("a.1.0.3", {0.5, 0}), Disposition::buffered);
  settle_snapshot(update("a.2.0.1", {0, -1}), Disposition::counted);
  EXPECT_THAT(own(), ElementsAre(1.5, 1)) << "of two jobs at once";
  EXPECT_THAT(list_snapshots(directory_ / "job"), ::testing::IsEmpty());
  EXPECT_THAT(own(), ElementsAre(1.5, 1));
}

// Killed after own.safetensors was written and before the pending update was removed.
TEST_F(ControlStore, AKillInBetweenCountsAnUpdateOnce) {
  const Snapshot snapshot = update("a.1.0.1", {1, 2});
  const std::filesystem::path copy = directory_ / "copy";
  std::filesystem::copy_file(snapshot.update, copy);
  settle_snapshot(snapshot, Disposition::counted);
  EXPECT_THAT(own(), ElementsAre(1, 2));
  std::filesystem::copy_file(copy, controls_ / "pending" / snapshot.update.filename());
  EXPECT_THAT(own(), ElementsAre(1, 2));
  settle_snapshot(update("a.1.0.2", {1, 1}), Disposition::counted);
  EXPECT_THAT(own(), ElementsAre(2, 3));
}

TEST_F(ControlStore, ThoseOfAnotherModelAreAnError) {
  settle_snapshot(update("a.1.0.1", {1, 2}), Disposition::counted);
  own();
  layout_ = *tensor::controls_of(*tensor::lay_out({{"other", tensor::DType::f32, {2}, 0, 0}}));
  const auto values = load_own_controls(controls_, layout_);
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().code, Code::model_mismatch);
}

class ControlledTraining : public ControlStore {
 protected:
  ControlledTraining() {
    options_.training.batch_size = 16;
    options_.training.optimizer.momentum = 0;
    options_.snapshot_s = 0;
  }
  // The initial model with c everywhere this value.
  std::filesystem::path model_with_controls(float c) {
    const tensor::Reader plain = *tensor::Reader::open(make_model());
    const tensor::Manifest layout = *tensor::with_controls(plain.manifest());
    const std::filesystem::path path = directory_ / "controlled.safetensors";
    auto writer = tensor::Writer::create(path, layout);
    for (const tensor::TensorInfo& info : layout.tensors) {
      std::vector<float> values(info.elements(), c);
      if (!is_control(info)) {
        EXPECT_TRUE(plain.read_tensor(*plain.manifest().find(info.name),
                                      std::as_writable_bytes(std::span(values))));
      }
      EXPECT_TRUE(writer->write(std::as_bytes(std::span(values))));
    }
    EXPECT_TRUE(writer->finish());
    return path;
  }
  std::unique_ptr<Trainer> make_trainer() {
    return std::move(*Trainer::create(options_, *collective_, picture_dataset(200)));
  }
  // The update of a segment from this model.
  std::filesystem::path trained(const std::filesystem::path& model, const std::string& name) {
    auto trainer = make_trainer();
    EXPECT_TRUE(trainer->load(model, controls_));
    const auto result = trainer->run({0, 4, 0.05, {}});
    EXPECT_TRUE(result) << result.error().message;
    EXPECT_TRUE(trainer->write_update(directory_ / name));
    return directory_ / name;
  }

  TrainerOptions options_;
  std::unique_ptr<Collective> collective_ = make_single_collective();
};

TEST_F(ControlledTraining, TheUpdateCarriesTheDifferences) {
  const auto update = trained(model_with_controls(0.125f), "update.safetensors");
  const auto delta = floats(update, "fc1.bias");
  const auto difference = floats(update, "fedqueue.control.fc1.bias");
  for (std::size_t i = 0; i < delta.size(); ++i) {
    ASSERT_NEAR(difference[i], -delta[i] / (4 * 0.05) - 0.125, 1e-6);
  }
}

// With c = c_k the correction vanishes: the model moves as if there were none.
TEST_F(ControlledTraining, TheFacilitysOwnAreTakenOffTheServers) {
  const auto plain = trained(make_model(), "plain.safetensors");
  const auto zero = trained(model_with_controls(0), "zero.safetensors");
  EXPECT_EQ(floats(zero, "fc1.weight"), floats(plain, "fc1.weight"));
  const auto moved = trained(model_with_controls(0.25f), "moved.safetensors");
  EXPECT_NE(floats(moved, "fc1.weight"), floats(plain, "fc1.weight"));

  Snapshot snapshot;
  snapshot.id = UpdateId("a.1.0.1");
  snapshot.update = *snapshot_file(directory_ / "job", snapshot.id);
  snapshot.controls = controls_;
  std::filesystem::copy_file(model_with_controls(0.25f), snapshot.update);
  settle_snapshot(snapshot, Disposition::counted);
  const auto balanced = trained(model_with_controls(0.25f), "balanced.safetensors");
  EXPECT_EQ(floats(balanced, "fc1.weight"), floats(plain, "fc1.weight"));
}

TEST_F(ControlledTraining, MomentumIsRefused) {
  options_.training.optimizer.momentum = 0.9;
  auto trainer = make_trainer();
  const auto result = trainer->run({0, 4, 0.05, model_with_controls(0)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::usage);
  EXPECT_THAT(result.error().message, HasSubstr("plain SGD"));
  EXPECT_TRUE(trainer->usable());
}

TEST_F(ControlledTraining, AModelWithControlVariatesIsJudgedAsWithoutThem) {
  const Dataset held_out = picture_dataset(100, 4, 77);
  EXPECT_EQ(evaluate(model_with_controls(3), held_out)->loss,
            evaluate(make_model(), held_out)->loss);
}

}  // namespace
}  // namespace fedqueue
