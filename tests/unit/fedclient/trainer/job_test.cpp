// A whole job of one rank against a played server.
#include "fedclient/trainer/job.h"

#include <gmock/gmock.h>

#include <deque>

#include "core/base/file.h"
#include "fedclient/session/snapshot.h"
#include "fedclient/trainer/control_variates.h"
#include "fedclient/trainer/trainer_state.h"
#include "fixture.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;

// Answers as told and remembers what it got.
class PlayedServer : public SessionServer {
 public:
  Result<JobAnswer> enrol(const JobRegistration& registration) override {
    registrations.push_back(registration);
    return answer;
  }
  Result<HeartbeatAnswer> heartbeat(const AttemptId&, const Heartbeat&) override {
    return HeartbeatAnswer{};
  }
  Status end_job(const AttemptId&, const JobEnd& end) override {
    ends.push_back(end.state);
    return {};
  }
  Result<DownloadedModel> download_model(std::optional<Version> version,
                                         const std::filesystem::path& path) override {
    std::filesystem::copy_file(model, path, std::filesystem::copy_options::overwrite_existing);
    downloads.push_back(version.value_or(-1));
    return DownloadedModel{version.value_or(0), "", std::filesystem::file_size(path)};
  }
  Result<UpdateAnswer> upload_update(const UpdateId& id, const std::filesystem::path& path,
                                     const UpdateMetadata& metadata, const std::string&,
                                     const RetryPolicy&) override {
    if (refuse) return *refuse;
    EXPECT_TRUE(std::filesystem::exists(path));
    uploads.push_back(id.str());
    metadatas.push_back(metadata);
    UpdateAnswer out;
    out.id = id;
    if (!next.empty()) {
      out.next = next.front();
      next.pop_front();
    }
    return out;
  }
  Result<UpdateAnswer> ask_next(const UpdateId& id) override {
    UpdateAnswer out;
    out.id = id;
    if (!next.empty()) {
      out.next = next.front();
      next.pop_front();
    }
    return out;
  }

  std::filesystem::path model;
  JobAnswer answer;
  std::deque<Next> next;
  std::optional<Error> refuse;
  std::vector<JobRegistration> registrations;
  std::vector<std::string> uploads, ends;
  std::vector<UpdateMetadata> metadatas;
  std::vector<Version> downloads;
};

Next segment(int index, Version base, std::int64_t steps) {
  Next next;
  next.kind = Next::Kind::segment;
  next.segment = {index, base, steps, 0.02};
  return next;
}

class JobTest : public TrainingTest {
 protected:
  JobTest() {
    server_.model = make_model();
    server_.answer.token = "token";
    server_.answer.heartbeat_s = 1;
    server_.answer.lease_s = 10;
    server_.answer.next = segment(1, 3, 6);
    server_.answer.training = {{"batch_size", "8"}, {"some_later_setting", "x"}};
    options_.facility = FacilityId("site-a");
    options_.record.attempt = AttemptId("42.1");
    options_.record.queue.queue_wait_s = 17;
    options_.job_directory = directory_ / "job";
    trainer_options_.snapshot_s = 0;
  }

  int run() {
    Result<std::unique_ptr<Trainer>> trainer =
        Trainer::create(trainer_options_, *collective_, picture_dataset(100));
    EXPECT_TRUE(trainer);
    return run_job(**trainer, *collective_, server_, heartbeats_, options_, {});
  }

  PlayedServer server_, heartbeats_;
  JobOptions options_;
  TrainerOptions trainer_options_;
  std::unique_ptr<Collective> collective_ = make_single_collective();
};

TEST_F(JobTest, TrainsSegmentAfterSegmentUntilTheServerSaysStop) {
  server_.next = {segment(2, 4, 5)};  // then the default: stop
  EXPECT_EQ(run(), 0);
  ASSERT_EQ(server_.registrations.size(), 1u);
  EXPECT_EQ(server_.registrations[0].attempt.str(), "42.1");
  EXPECT_EQ(server_.registrations[0].queue.queue_wait_s, 17);
  EXPECT_FALSE(server_.registrations[0].nonce.empty());
  EXPECT_THAT(server_.downloads, ElementsAre(3, 4));
  EXPECT_THAT(server_.uploads, ElementsAre("site-a.42.1.1", "site-a.42.1.2"));
  EXPECT_EQ(server_.metadatas[0].base, 3);
  EXPECT_EQ(server_.metadatas[0].steps_run, 6);
  EXPECT_EQ(server_.metadatas[0].samples, 48);  // the run's batch size
  EXPECT_EQ(server_.metadatas[1].steps_run, 5);
  EXPECT_GT(server_.metadatas[1].seconds_per_step, 0);
  EXPECT_EQ(server_.ends.size(), 1u);
  EXPECT_THAT(list_snapshots(options_.job_directory), ::testing::IsEmpty());
}

TEST_F(JobTest, TheNextJobOfTheFacilityGoesOnWithTheTrainingState) {
  options_.training_state = directory_ / "training.safetensors";
  server_.answer.training["lr_schedule"] = "step";
  server_.answer.training["lr_step_every"] = "6";
  EXPECT_EQ(run(), 0);
  const auto kept = read_trainer_state(options_.training_state,
                                       (*Network::create({"mlp", 4, {{1, 12, 12}}}, {}))->ranges());
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->schedule.steps_done, 6);
  EXPECT_EQ(kept->data.position.offset, 48);
  EXPECT_FALSE(kept->optimizer.first.empty()) << "momentum";

  options_.record.attempt = AttemptId("43.0");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(read_trainer_state(options_.training_state,
                               (*Network::create({"mlp", 4, {{1, 12, 12}}}, {}))->ranges())
                ->schedule.steps_done,
            12);

  // What cannot be used is replaced.
  ASSERT_TRUE(write_file_atomic(options_.training_state, "torn"));
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(read_trainer_state(options_.training_state,
                               (*Network::create({"mlp", 4, {{1, 12, 12}}}, {}))->ranges())
                ->schedule.steps_done,
            6);
}

TEST_F(JobTest, AFinishedRunEndsTheJobWithoutTraining) {
  server_.answer.next = {};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(server_.uploads, ::testing::IsEmpty());
}

TEST_F(JobTest, ASignalSendsTheStepsThatWereRun) {
  server_.answer.next = segment(1, 0, 1000000000);
  trainer_options_.snapshot_s = 1e-9;
  // The first snapshot shows that a step has been run.
  options_.interrupted = [this]() -> std::string {
    return list_snapshots(options_.job_directory).empty() ? "" : "signal TERM";
  };
  EXPECT_EQ(run(), 0);
  ASSERT_EQ(server_.uploads.size(), 1u);
  EXPECT_GT(server_.metadatas[0].steps_run, 0);
  EXPECT_LT(server_.metadatas[0].steps_run, 1000000000);
}

TEST_F(JobTest, TheAllocationsEndStopsTrainingInTime) {
  server_.answer.next = segment(1, 0, 1000000000);
  options_.record.queue.remaining_s = 2;
  options_.reserve_s = 1;
  EXPECT_EQ(run(), 0);
  ASSERT_EQ(server_.uploads.size(), 1u);
  EXPECT_GT(server_.metadatas[0].steps_run, 0);
}

TEST_F(JobTest, WhileTrainingASnapshotLiesReadyForTheAgent) {
  trainer_options_.snapshot_s = 1e-9;
  server_.refuse = Error{Code::identity, "the certificate is for something else", ""};
  EXPECT_EQ(run(), static_cast<int>(Code::identity));
  const auto snapshots = list_snapshots(options_.job_directory);
  ASSERT_EQ(snapshots.size(), 1u);
  EXPECT_EQ(snapshots[0].id.str(), "site-a.42.1.1");
  EXPECT_EQ(snapshots[0].metadata.steps_run, 6);
  EXPECT_EQ(snapshots[0].token, "token");
}

// Two jobs of a facility: the second starts from what the first one's update said.
TEST_F(JobTest, ControlVariatesOutliveTheJob) {
  const tensor::Reader plain = *tensor::Reader::open(server_.model);
  const std::filesystem::path controlled = directory_ / "controlled.safetensors";
  ASSERT_TRUE(tensor::copy_tensors(plain, *tensor::with_controls(plain.manifest()), controlled));
  server_.model = controlled;
  server_.answer.training["momentum"] = "0";
  options_.controls_directory = directory_ / "controls-mnist";
  EXPECT_EQ(run(), 0);
  const tensor::Manifest layout = *tensor::controls_of(plain.manifest());
  const auto first = load_own_controls(options_.controls_directory, layout);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_THAT(*first, ::testing::Contains(::testing::Ne(0)));

  options_.record.attempt = AttemptId("43.0");
  options_.job_directory = directory_ / "job-43";
  server_.refuse = Error{Code::identity, "the certificate is for something else", ""};
  EXPECT_NE(run(), 0);
  EXPECT_EQ(*load_own_controls(options_.controls_directory, layout), *first)
      << "an update that the server did not take leaves them as they are";
}

class LeftoverTest : public JobTest {
 protected:
  LeftoverTest() {
    Snapshot snapshot;
    snapshot.id = UpdateId("site-a.42.0.1");
    snapshot.update = *snapshot_file(options_.job_directory, snapshot.id);
    EXPECT_TRUE(write_file_atomic(snapshot.update, "update"));
    snapshot.metadata.steps_run = 9;
    EXPECT_TRUE(write_snapshot_note(snapshot));
  }
};

TEST_F(LeftoverTest, WhatAnEarlierLaunchLeftIsSentFirst) {
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(server_.uploads, ElementsAre("site-a.42.0.1", "site-a.42.1.1"));
  EXPECT_EQ(server_.metadatas[0].steps_run, 9);
}

TEST_F(LeftoverTest, ARefusedLeftoverIsRemovedAndAnUnreachableServerIsNotARefusal) {
  server_.refuse = Error{Code::network_refused, "nobody listens", ""};
  send_leftovers(server_, options_, {});
  EXPECT_EQ(list_snapshots(options_.job_directory).size(), 1u);
  server_.refuse = Error{Code::tls_expired, "the certificate is expired", ""};
  send_leftovers(server_, options_, {});
  EXPECT_EQ(list_snapshots(options_.job_directory).size(), 1u);
  server_.refuse = Error{Code::wrong_base, "the base is too old", ""};
  send_leftovers(server_, options_, {});
  EXPECT_THAT(list_snapshots(options_.job_directory), ::testing::IsEmpty());
}

TEST(Seeds, DifferBetweenAttemptsAndFacilitiesAndAreTheSameEachTime) {
  const auto seed = seed_for_attempt(1, FacilityId("a"), AttemptId("1.0"));
  EXPECT_EQ(seed_for_attempt(1, FacilityId("a"), AttemptId("1.0")), seed);
  EXPECT_NE(seed_for_attempt(1, FacilityId("a"), AttemptId("1.1")), seed);
  EXPECT_NE(seed_for_attempt(1, FacilityId("b"), AttemptId("1.0")), seed);
  EXPECT_NE(seed_for_attempt(2, FacilityId("a"), AttemptId("1.0")), seed);
}

}  // namespace
}  // namespace fedqueue
