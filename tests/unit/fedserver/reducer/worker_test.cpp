// What the engine relies on of the worker: a reduction leaves a model and a state of their own
// names with the digests it reports, may be done twice, and what is not referred to goes.
#include "fedserver/reducer/worker.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <optional>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/tensor/file.h"

namespace fedqueue {
namespace {

class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "worker-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    auto opened = BlobStore::open(folder_, {});
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
    start();
    write(store_->model_path("round-0000.safetensors"), 1);
    plan_.updates = {{UpdateId("a.1.0.1"), FacilityId("a"), 0, 0, 0.5}};
    plan_.step = {.optimizer = ServerOptimizer::momentum};
    write(store_->update_path(UpdateId("a.1.0.1")), 0.4);
  }
  void TearDown() override {
    worker_.reset();
    std::filesystem::remove_all(folder_);
  }
  // As after a restart of the server.
  void start() {
    worker_ = std::make_unique<Worker>(
        *store_, WorkerOptions{.reduce_threads = 2},
        [this](Event event) {
          const std::lock_guard lock(mutex_);
          completion_ = std::move(event);
          completed_.notify_all();
        },
        Log());
  }

  static void write(const std::filesystem::path& path, float value) {
    auto layout = tensor::lay_out({{"w", tensor::DType::f32, {1}, 0, 0}});
    auto writer = tensor::Writer::create(path, *layout);
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(&value, 1))));
    ASSERT_TRUE(writer->finish());
  }
  static float read(const std::filesystem::path& path, const std::string& name) {
    const auto reader = tensor::Reader::open(path);
    EXPECT_TRUE(reader);
    const tensor::TensorInfo* info = reader->manifest().find(name);
    EXPECT_NE(info, nullptr);
    float value = 0;
    EXPECT_TRUE(reader->read_tensor(*info, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  Event reduce(const StartReduce& action) {
    worker_->perform(action);
    std::unique_lock lock(mutex_);
    completed_.wait(lock, [this] { return completion_.has_value(); });
    Event event = std::move(*completion_);
    completion_.reset();
    return event;
  }
  // The next version after `current`, with the server's state as the engine would hand it on.
  ReduceFinished publish(Version input, std::optional<ServerState> state) {
    StartReduce action{plan_, {input, BlobStore::model_file(input), "", 0}, {}};
    action.plan.input_version = input;
    action.plan.state = std::move(state);
    const Event event = reduce(action);
    const auto* finished = std::get_if<ReduceFinished>(&event);
    EXPECT_NE(finished, nullptr);
    return finished != nullptr ? *finished : ReduceFinished{};
  }

  std::filesystem::path folder_;
  std::unique_ptr<BlobStore> store_;
  std::unique_ptr<Worker> worker_;
  ReduceStarted plan_;
  std::mutex mutex_;
  std::condition_variable completed_;
  std::optional<Event> completion_;
};

TEST_F(WorkerTest, TheStateOfOneVersionIsWhatTheNextStartsFrom) {
  const ReduceFinished first = publish(0, std::nullopt);
  ASSERT_TRUE(first.state);
  EXPECT_EQ(first.state->version, 1);
  EXPECT_EQ(first.state->file, "state-0001.safetensors");
  const std::string bytes = *read_file(store_->model_path(first.state->file));
  EXPECT_EQ(first.state->sha256, sha256_hex(bytes));
  EXPECT_EQ(first.state->bytes, bytes.size());
  EXPECT_FLOAT_EQ(read(store_->model_path(first.model.file), "w"), 1.2f);

  const ReduceFinished second = publish(1, first.state);
  EXPECT_FLOAT_EQ(read(store_->model_path(second.model.file), "w"), 1.2f + 0.9f * 0.2f + 0.2f);
}

TEST_F(WorkerTest, DoingItAgainAfterARestartGivesTheSameFiles) {
  const ReduceFinished first = publish(0, std::nullopt);
  const ReduceFinished once = publish(1, first.state);
  start();
  const ReduceFinished again = publish(1, first.state);
  EXPECT_EQ(again.model.sha256, once.model.sha256);
  EXPECT_EQ(again.state->sha256, once.state->sha256);
}

// The optimiser was switched off for version 2: what it remembers is of another model.
TEST_F(WorkerTest, AStateThatIsNotOfTheInputsVersionIsLeftAlone) {
  const ReduceFinished first = publish(0, std::nullopt);
  plan_.step = {};
  const ReduceFinished second = publish(1, first.state);
  EXPECT_FALSE(second.state);
  plan_.step = {.optimizer = ServerOptimizer::momentum};
  const ReduceFinished third = publish(2, first.state);
  EXPECT_FLOAT_EQ(read(store_->model_path(third.state->file), "m/w"), 0.2f);
}

TEST_F(WorkerTest, AFailedReductionIsReportedAndLeavesNoFile) {
  std::filesystem::remove(store_->update_path(UpdateId("a.1.0.1")));
  StartReduce action{plan_, {0, "round-0000.safetensors", "", 0}, {}};
  const Event event = reduce(action);
  const auto* failed = std::get_if<ReduceFailed>(&event);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->version, 1);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(store_->models())) {
    ++files;
  }
  EXPECT_EQ(files, 1u) << "the initial model alone";
}

TEST_F(WorkerTest, AReplacedStateIsRemovedAndTheSweepKeepsTheOneInUse) {
  const ReduceFinished first = publish(0, std::nullopt);
  const ReduceFinished second = publish(1, first.state);
  worker_->perform(RemoveState{*first.state});
  publish(2, second.state);  // actions are done in their order
  EXPECT_FALSE(std::filesystem::exists(store_->model_path(first.state->file)));
  const auto swept = store_->sweep({}, {"round-0002.safetensors", second.state->file});
  ASSERT_TRUE(swept);
  EXPECT_TRUE(std::filesystem::exists(store_->model_path(second.state->file)));
  EXPECT_FALSE(std::filesystem::exists(store_->model_path("state-0003.safetensors")));
}

}  // namespace
}  // namespace fedqueue
