// Rank 0's loop against a played server and trainer.
#include "fedclient/session/session_loop.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "fedclient/session/snapshot.h"

namespace fedqueue {
namespace {

Next segment(int index, Version base) {
  Next next;
  next.kind = Next::Kind::segment;
  next.segment = {index, base, 10, 0.1};
  return next;
}

// Answers as the server would, for a job of `segments` segments.
class PlayedServer : public SessionServer {
 public:
  int segments = 2;
  HeartbeatAnswer::State beat = HeartbeatAnswer::State::go_on;
  bool upload_fails = false;
  bool answers_later = false;
  std::vector<std::string> asked;
  std::vector<std::string> uploaded;
  std::vector<JobEnd> ends;

  Result<JobAnswer> enrol(const JobRegistration&) override {
    JobAnswer answer;
    answer.token = "token";
    answer.heartbeat_s = 0.001;
    answer.next = segment(1, 0);
    return answer;
  }
  Result<HeartbeatAnswer> heartbeat(const AttemptId&, const Heartbeat&) override {
    std::lock_guard lock(mutex_);
    ++beats_;
    changed_.notify_all();
    return HeartbeatAnswer{beat, ""};
  }
  Status end_job(const AttemptId&, const JobEnd& end) override {
    ends.push_back(end);
    return {};
  }
  Result<DownloadedModel> download_model(std::optional<Version> version,
                                         const std::filesystem::path& path) override {
    std::ofstream(path) << "model " << *version;
    return DownloadedModel{*version, "", 7};
  }
  Result<UpdateAnswer> upload_update(const UpdateId& id, const std::filesystem::path& path,
                                     const UpdateMetadata&, const std::string& token,
                                     const RetryPolicy&) override {
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_EQ(token, "token");
    if (upload_fails) return Error{Code::network, "cut", ""};
    uploaded.push_back(id.str());
    UpdateAnswer answer;
    answer.id = id;
    const int done = static_cast<int>(uploaded.size());
    if (answers_later) {
      answer.next.kind = Next::Kind::wait;
      answer.next.wait_s = 0.001;
    } else if (done < segments) {
      answer.next = segment(done + 1, done);
    }
    return answer;
  }
  // The answer after a wait: the segment that the upload could not name yet.
  Result<UpdateAnswer> ask_next(const UpdateId& id) override {
    asked.push_back(id.str());
    UpdateAnswer answer;
    answer.id = id;
    const int done = static_cast<int>(uploaded.size());
    if (done < segments) answer.next = segment(done + 1, done);
    return answer;
  }
  void wait_for_a_beat() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return beats_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int beats_ = 0;
};

class PlayedTrainer : public LocalTrainer {
 public:
  PlayedServer* wait_until_stopped_by = nullptr;
  std::vector<Version> loaded;

  Status load(const std::filesystem::path& model, Version version, const JobAnswer&) override {
    EXPECT_TRUE(std::filesystem::exists(model));
    loaded.push_back(version);
    return {};
  }
  Result<UpdateMetadata> train(const Segment& todo, TrainControl& control,
                               const std::filesystem::path& update) override {
    UpdateMetadata metadata;
    metadata.steps_run = todo.local_steps;
    if (wait_until_stopped_by != nullptr) {
      while (!control.stop) wait_until_stopped_by->wait_for_a_beat();
      metadata.steps_run = 3;
    }
    std::ofstream(update) << "delta";
    return metadata;
  }
};

class SessionLoopTest : public testing::Test {
 protected:
  SessionLoopTest() {
    std::string pattern = testing::TempDir() + "loop-XXXXXX";
    settings_.job_directory = ::mkdtemp(pattern.data());
    SessionSettings session;
    session.facility = FacilityId("site-a");
    session.registration.attempt = AttemptId("7.0");
    session_.emplace(session, steady_instant());
  }
  ~SessionLoopTest() override { std::filesystem::remove_all(settings_.job_directory); }

  int run() { return run_session(*session_, server_, server_, trainer_, settings_, Log()); }

  SessionLoopSettings settings_;
  std::optional<Session> session_;
  PlayedServer server_;
  PlayedTrainer trainer_;
};

TEST_F(SessionLoopTest, AsksForTheSegmentThatAnUploadCouldNotNameYet) {
  server_.answers_later = true;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(server_.uploaded.size(), 2u);
  EXPECT_EQ(server_.asked, server_.uploaded) << "each update is asked about by its own id";
  EXPECT_EQ(trainer_.loaded, (std::vector<Version>{0, 1}));
}

TEST_F(SessionLoopTest, TrainsItsSegmentsAndReportsTheEnd) {
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(server_.uploaded, (std::vector<std::string>{"site-a.7.0.1", "site-a.7.0.2"}));
  EXPECT_EQ(trainer_.loaded, (std::vector<Version>{0, 1}));
  ASSERT_EQ(server_.ends.size(), 1u);
  EXPECT_EQ(server_.ends[0].state, "done");
  EXPECT_TRUE(list_snapshots(settings_.job_directory).empty());
  for (const auto& left : std::filesystem::recursive_directory_iterator(settings_.job_directory)) {
    EXPECT_FALSE(left.is_regular_file()) << left.path();
  }
}

TEST_F(SessionLoopTest, LeavesASnapshotWhenTheUpdateCouldNotBeSent) {
  server_.upload_fails = true;
  EXPECT_EQ(run(), 10);
  const std::vector<Snapshot> left = list_snapshots(settings_.job_directory);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].id.str(), "site-a.7.0.1");
  EXPECT_EQ(left[0].metadata.steps_run, 10);
  EXPECT_EQ(left[0].token, "token");
}

TEST_F(SessionLoopTest, StopsTrainingAndSendsWhenTheServerAsksToFinish) {
  server_.beat = HeartbeatAnswer::State::finish;
  trainer_.wait_until_stopped_by = &server_;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(server_.uploaded.size(), 1u);
  EXPECT_EQ(server_.ends.size(), 1u);
}

TEST_F(SessionLoopTest, DropsTheWorkWhenFenced) {
  server_.beat = HeartbeatAnswer::State::fenced;
  trainer_.wait_until_stopped_by = &server_;
  EXPECT_EQ(run(), 56);
  EXPECT_TRUE(server_.uploaded.empty());
  EXPECT_TRUE(server_.ends.empty());
}

TEST_F(SessionLoopTest, FinishesOnASignal) {
  trainer_.wait_until_stopped_by = &server_;
  settings_.interrupted = [] { return std::string("SIGTERM"); };
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(session_->reason(), "SIGTERM");
}

}  // namespace
}  // namespace fedqueue
