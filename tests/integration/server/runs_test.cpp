// Whole runs on the real server: undisturbed, killed, and by timer.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/base/prng.h"
#include "core/tensor/file.h"
#include "fedserver/journal/sqlite_journal.h"
#include "run_fixture.h"

namespace fedqueue::test {
namespace {

// FedAvg without a timer: every round has exactly both facilities.
const std::vector<std::string> fedavg_five_rounds = {
    "--policy",      "fedavg", "--rounds",  "5",   "--plan_retry_s",      "0.05",
    "--heartbeat_s", "10",     "--lease_s", "600", "--contact_timeout_s", "600"};

std::string exported_sha(const ServerRun& run) {
  const std::filesystem::path file = run.scratch() / "final.safetensors";
  const Finished exported = run.server({"export"}, {"-o", file.string()});
  EXPECT_EQ(exported.exit_code, 0) << exported.output;
  return file_sha256(file);
}

// Plays until the run is finished; `before_step` is called with the number of every step.
template <typename BeforeStep>
int play(ServerRun& run, BeforeStep before_step) {
  PlayedFacility alpha(run, "alpha");
  PlayedFacility bravo(run, "bravo");
  int steps = 0;
  bool alpha_on = true;
  bool bravo_on = true;
  while ((alpha_on || bravo_on) && steps < 5000 && !::testing::Test::HasFailure()) {
    before_step(steps++);
    if (alpha_on) alpha_on = alpha.step();
    before_step(steps++);
    if (bravo_on) bravo_on = bravo.step();
  }
  return steps;
}

TEST(Run, TwoFacilitiesTrainFiveRoundsOverTls) {
  ServerRun run(fedavg_five_rounds);
  run.start();
  play(run, [](int) {});
  const std::string shown = run.server({"status"}, {"--format", "json"}).output;
  const auto status = nlohmann::json::parse(shown, nullptr, false);
  ASSERT_TRUE(status.is_object()) << shown;
  EXPECT_EQ(status["version"], 5);
  EXPECT_EQ(status["state"], "finished");
  EXPECT_EQ(status["facilities"]["alpha"]["updates_counted"], 5);
  EXPECT_EQ(status["facilities"]["bravo"]["updates_counted"], 5);
  const std::string running = exported_sha(run);
  EXPECT_EQ(run.stop_politely(), 0);
  EXPECT_EQ(exported_sha(run), running) << "export and status also work without the server";
  // The counter takes the maximum, whole.
  const Result<tensor::Reader> model = tensor::Reader::open(run.scratch() / "final.safetensors");
  ASSERT_TRUE(model);
  const tensor::TensorInfo* counter = model->manifest().find("norm.num_batches_tracked");
  ASSERT_NE(counter, nullptr);
  std::int64_t value = 0;
  ASSERT_TRUE(model->read_tensor(*counter, std::as_writable_bytes(std::span(&value, 1))));
  EXPECT_EQ(value, 7 + 10 * 5 + 1);
}

std::vector<float> exported(const ServerRun& run, std::vector<std::string> options,
                            const std::string& tensor) {
  const std::filesystem::path file = run.scratch() / "exported.safetensors";
  options.insert(options.end(), {"-o", file.string()});
  const Finished done = run.server({"export"}, options);
  EXPECT_EQ(done.exit_code, 0) << done.output;
  const Result<tensor::Reader> model = tensor::Reader::open(file);
  EXPECT_TRUE(model);
  const tensor::TensorInfo* info = model->manifest().find(tensor);
  EXPECT_NE(info, nullptr);
  std::vector<float> values(info->elements());
  EXPECT_TRUE(model->read_tensor(*info, std::as_writable_bytes(std::span(values))));
  return values;
}

TEST(Run, TheNewestVersionsAreExportedAsTheirMean) {
  std::vector<std::string> options = fedavg_five_rounds;
  options.insert(options.end(), {"--models_kept", "3"});
  ServerRun run(options);
  run.start();
  play(run, [](int) {});
  const std::string name = "fc.weight";
  const auto mean = exported(run, {"--average", "3"}, name);
  const auto third = exported(run, {"--version", "3"}, name);
  const auto fourth = exported(run, {"--version", "4"}, name);
  const auto fifth = exported(run, {"--version", "5"}, name);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    ASSERT_NEAR(mean[i], (third[i] + fourth[i] + fifth[i]) / 3, 1e-6);
  }
  const Finished pruned = run.server({"export"}, {"--average", "4"});
  EXPECT_EQ(pruned.exit_code, static_cast<int>(Code::not_found)) << pruned.output;
  EXPECT_NE(pruned.output.find("version 2 is not there"), std::string::npos) << pruned.output;
}

TEST(Run, ASecondStartSaysAlreadyRunning) {
  ServerRun run(fedavg_five_rounds);
  run.start();
  const Finished second = run.server({"run"});
  EXPECT_EQ(second.exit_code, 0);
  EXPECT_NE(second.output.find("already running"), std::string::npos) << second.output;
}

// Kills the server at so many points of so many runs, between steps and in the middle of whatever
// it is doing for a step. Every run must end as the undisturbed one does.
void kill_and_compare(const std::vector<std::string>& options, int points, int runs) {
  std::string undisturbed;
  {
    ServerRun run(options);
    run.start();
    play(run, [](int) {});
    undisturbed = exported_sha(run);
  }
  if (::testing::Test::HasFailure()) return;
  Prng prng(7);
  int kills = 0;
  for (int i = 0; i < runs; ++i) {
    ServerRun run(options);
    run.start();
    std::set<int> at;
    // Two facilities, five rounds, five steps: no run is shorter than fifty steps.
    while (at.size() < static_cast<std::size_t>(points / runs)) {
      at.insert(static_cast<int>(2 * prng.below(22)));
    }
    std::thread killer;
    play(run, [&](int step) {
      if (killer.joinable()) {
        killer.join();
        run.kill_hard();
        run.start();
      }
      if (!at.contains(step)) return;
      ++kills;
      if (kills % 2 == 0) {
        run.kill_hard();
        run.start();
        return;
      }
      const auto delay = std::chrono::microseconds(prng.below(20000));
      killer = std::thread([pid = run.pid(), delay] {
        std::this_thread::sleep_for(delay);
        ::kill(pid, SIGKILL);
      });
    });
    if (killer.joinable()) killer.join();
    if (::testing::Test::HasFailure()) return;
    EXPECT_EQ(exported_sha(run), undisturbed);
  }
  EXPECT_EQ(kills, points);
}

TEST(Run, KilledAtTwentyPointsItEndsWithTheSameModel) {
  kill_and_compare(fedavg_five_rounds, 20, 4);
}

// The optimiser's state and the control variates are on disk with the version they belong to.
TEST(Run, KilledWithAServerOptimiserItEndsWithTheSameModel) {
  std::vector<std::string> options = fedavg_five_rounds;
  options.insert(options.end(), {"--outer", "adam", "--control_variates"});
  kill_and_compare(options, 8, 1);
}

TEST(Run, AServerOptimiserGoesOnFromItsState) {
  std::vector<std::string> options = fedavg_five_rounds;
  options.insert(options.end(), {"--outer", "adam", "--control_variates"});
  ServerRun run(options);
  run.start();
  play(run, [](int) {});
  const std::filesystem::path models = run.directory() / "server" / "models";
  const Result<tensor::Reader> state = tensor::Reader::open(models / "state-0005.safetensors");
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->manifest().metadata.at("fedqueue.optimizer"), "adam");
  EXPECT_EQ(state->manifest().metadata.at("fedqueue.pushes"), "5");
  EXPECT_FALSE(std::filesystem::exists(models / "state-0003.safetensors"))
      << "removed before version 5 was made";
  const Result<tensor::Reader> kept = tensor::Reader::open(models / "round-0005.safetensors");
  ASSERT_TRUE(kept);
  EXPECT_NE(kept->manifest().find("fedqueue.control.fc.weight"), nullptr);
  exported_sha(run);
  const Result<tensor::Reader> model = tensor::Reader::open(run.scratch() / "final.safetensors");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->manifest().find("fedqueue.control.fc.weight"), nullptr) << "left out";
  EXPECT_NE(model->manifest().find("fc.weight"), nullptr);
  run.stop_politely();
  run.start();
  EXPECT_FALSE(std::filesystem::exists(models / "state-0004.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(models / "state-0005.safetensors")) << "swept around";
}

// What comes after an update, asked for until it is known.
UpdateAnswer ask_until_known(Link& link, UpdateAnswer answer) {
  while (answer.next.kind == Next::Kind::wait && !::testing::Test::HasFailure()) {
    std::this_thread::sleep_for(from_seconds(answer.next.wait_s));
    Result<UpdateAnswer> asked = link.ask_next(answer.id);
    EXPECT_TRUE(asked) << (asked ? "" : asked.error().message);
    if (asked) answer = std::move(*asked);
  }
  return answer;
}

TEST(Run, AResidentJobTrainsOnFromItsOwnUpdatesAlsoAcrossAKill) {
  ServerRun run({"--policy", "resident", "--rounds", "6", "--lease_s", "60"}, {"alpha"});
  run.start();
  std::unique_ptr<Link> link = run.link("alpha");
  JobRegistration registration;
  registration.attempt = AttemptId("1.0");
  registration.nonce = "launch";
  const Result<JobAnswer> job = link->enrol(registration);
  ASSERT_TRUE(job) << job.error().message;
  Next next = job->next;
  int segments = 0;
  while (next.kind == Next::Kind::segment && segments < 10) {
    EXPECT_EQ(next.segment.base, segments) << "every base holds what this job sent before";
    const std::filesystem::path base = run.scratch() / "base.safetensors";
    ASSERT_TRUE(link->download_model(next.segment.base, base));
    const UpdateId id = make_update_id(FacilityId("alpha"), AttemptId("1.0"), next.segment.index);
    const std::filesystem::path update = run.scratch() / (id.str() + ".safetensors");
    const UpdateMetadata metadata = write_update(base, update, "alpha", next.segment);
    const Result<UpdateAnswer> sent =
        link->upload_update(id, update, metadata, job->token, run.link_config("alpha").retry);
    ASSERT_TRUE(sent) << sent.error().message;
    const UpdateAnswer answer = ask_until_known(*link, *sent);
    ++segments;
    if (segments == 3) {
      run.kill_hard();
      run.start();
      link = run.link("alpha");
      const Result<UpdateAnswer> again = link->ask_next(id);
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(encode(*again), encode(answer));
    }
    next = answer.next;
  }
  EXPECT_EQ(segments, 6);
  EXPECT_EQ(next.kind, Next::Kind::stop);
  EXPECT_NE(next.reason.find("finished"), std::string::npos) << next.reason;
}

// The sum that the reducer makes, written as plainly as possible.
std::vector<float> reference_sum(const tensor::Reader& current,
                                 const std::vector<std::pair<std::filesystem::path, double>>& terms,
                                 const std::string& name) {
  const auto load = [&](const tensor::Reader& reader) {
    const tensor::TensorInfo* info = reader.manifest().find(name);
    std::vector<float> values(info->elements());
    EXPECT_TRUE(reader.read_tensor(*info, std::as_writable_bytes(std::span(values))));
    return values;
  };
  const std::vector<float> base = load(current);
  std::vector<float> sum(base.size(), 0.0F);
  for (const auto& [path, weight] : terms) {
    const Result<tensor::Reader> reader = tensor::Reader::open(path);
    EXPECT_TRUE(reader);
    const std::vector<float> delta = load(*reader);
    const auto factor = static_cast<float>(weight);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * delta[i];
  }
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += base[i];
  return sum;
}

TEST(Run, UnderATimerEveryPublishedModelIsTheSumOfTheJournalledSet) {
  ServerRun run({"--policy", "fedqueue", "--rounds", "6", "--t_sync_s", "0.6", "--theta_s", "0.05",
                 "--plan_retry_s", "0.05", "--models_kept", "0", "--lease_s", "60"},
                {"alpha", "bravo", "charlie"});
  run.start();
  std::vector<std::thread> threads;
  for (const char* name : {"alpha", "bravo", "charlie"}) {
    threads.emplace_back([&run, name] {
      PlayedFacility facility(run, name);
      facility.set_queue_wait(std::string(name) == "charlie" ? 0.5 : 0.05);
      Prng prng(std::hash<std::string>()(name));
      while (facility.step()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(prng.below(120)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  run.stop_politely();

  const auto journal = SqliteJournal::open(run.directory() / "server" / "journal.sqlite");
  ASSERT_TRUE(journal);
  const auto rows = (*journal)->rows(0, 100000);
  ASSERT_TRUE(rows);
  std::optional<ReduceStarted> started;
  int checked = 0;
  for (const JournalRow& row : *rows) {
    const Result<Fact> fact = decode_fact(row.kind, row.text);
    ASSERT_TRUE(fact) << fact.error().message;
    if (const auto* begin = std::get_if<ReduceStarted>(&*fact)) started = *begin;
    const auto* published = std::get_if<Published>(&*fact);
    if (published == nullptr) continue;
    ASSERT_TRUE(started);
    const std::filesystem::path models = run.directory() / "server" / "models";
    const auto file_of = [&](Version version) {
      char name[40];
      std::snprintf(name, sizeof name, "round-%04d.safetensors", static_cast<int>(version));
      return models / name;
    };
    EXPECT_EQ(file_sha256(file_of(published->model.version)), published->model.sha256);
    const Result<tensor::Reader> before = tensor::Reader::open(file_of(started->input_version));
    const Result<tensor::Reader> after = tensor::Reader::open(file_of(published->model.version));
    ASSERT_TRUE(before && after);
    std::vector<std::pair<std::filesystem::path, double>> terms;
    for (const ReduceInput& input : started->updates) {
      terms.emplace_back(run.scratch() / (input.id.str() + ".safetensors"), input.weight);
    }
    for (const char* name : {"fc.weight", "fc.bias", "norm.running_mean"}) {
      const std::vector<float> expected = reference_sum(*before, terms, name);
      std::vector<float> got(expected.size());
      ASSERT_TRUE(after->read_tensor(*after->manifest().find(name),
                                     std::as_writable_bytes(std::span(got))));
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
          << name << " of version " << published->model.version;
    }
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

}  // namespace
}  // namespace fedqueue::test
