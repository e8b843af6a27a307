// What the SPANK plugin costs those who do not use it. Prints one JSON document.
//
//   plugin.hooks_ms  all hooks of one process together, after load, no --fed-*: the real plugin in
//   a
//                    process that plays Slurm, for each context; bar: 0.1 ms
//   plugin.load_ms   dlopen of the plugin, and dlclose
//   srun_true_ms     `srun true` in an allocation of a real one-cluster sandbox, with and without
//   the
//                    plugin in plugstack.conf, in alternating order; the difference is paired
//
// Every figure is a median with a bootstrap 95 % interval. Without Slurm the last part is null.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/spank_plugin/fake_slurm.h"

namespace {

using nlohmann::json;
using Samples = std::vector<double>;

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return took.count();
}

double median(Samples samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

// Percentile bootstrap of the median: 2,000 resamples, fixed seed.
json summary(const Samples& samples) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::size_t> pick(0, samples.size() - 1);
  Samples medians, drawn(samples.size());
  for (int i = 0; i < 2000; ++i) {
    for (double& value : drawn) value = samples[pick(random)];
    medians.push_back(median(drawn));
  }
  std::sort(medians.begin(), medians.end());
  return {{"median", median(samples)},
          {"low95", medians[medians.size() * 25 / 1000]},
          {"high95", medians[medians.size() * 975 / 1000]},
          {"n", samples.size()}};
}

json measure_load(const char* file, int count) {
  Samples samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back(milliseconds([&] {
      if (!fake_slurm::Plugin(file).loaded()) throw std::runtime_error("cannot load the plugin");
    }));
  }
  return summary(samples);
}

json measure_hooks(const char* file, spank_context_t context, int count) {
  const std::vector<const char*> hooks = {
      "init",      "job_prolog",           "init_post_opt", "local_user_init",
      "user_init", "task_init_privileged", "task_init",     "task_post_fork",
      "task_exit", "job_epilog",           "slurmd_exit",   "exit"};
  Samples samples;
  for (int i = 0; i < count; ++i) {
    fake_slurm::state() = fake_slurm::State();
    fake_slurm::state().context = context;
    const fake_slurm::Plugin plugin(file);
    samples.push_back(milliseconds([&] {
      for (const char* hook : hooks) plugin.hook(hook);
    }));
  }
  return summary(samples);
}

int run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0)
    return -1;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A one-cluster sandbox with one allocation held in it; gone at the end.
class Cluster {
 public:
  Cluster(std::string scripts, const std::string& plugin) : scripts_(std::move(scripts)) {
    char pattern[] = "/tmp/fqb-XXXXXX";
    if (mkdtemp(pattern) == nullptr) throw std::runtime_error("cannot make a folder in /tmp");
    folder_ = pattern;
    started_ =
        run({"/bin/sh", "-c",
             "exec '" + scripts_ + "/up' --dir '" + sandbox() +
                 "' --names t --nodes 1 --base-port auto --plugin '" + plugin + "' >&2"}) == 0;
    if (!started_) return;
    setenv("SLURM_CONF", (sandbox() + "/t/etc/slurm.conf").c_str(), 1);
    std::getline(std::ifstream(plugstack()), with_plugin_);
    started_ = run({"salloc", "--quiet", "--no-shell", "--job-name=bench", "--time=60", "--nodes=1",
                    "--exclusive"}) == 0;
  }
  ~Cluster() {
    run({"/bin/sh", "-c", "'" + scripts_ + "/down' --dir '" + sandbox() + "' >&2"});
    rmdir(folder_.c_str());
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] bool started() const { return started_; }

  // srun and slurmstepd read plugstack.conf anew each time.
  double srun_true(bool with_plugin) const {
    std::ofstream(plugstack()) << (with_plugin ? with_plugin_ : "") << "\n";
    int status = 0;
    const double took = milliseconds([&] {
      status =
          run({"/bin/sh", "-c", "exec srun --jobid=$(cat '" + folder_ + "/job') --ntasks=1 true"});
    });
    if (status != 0) throw std::runtime_error("srun true failed in the sandbox");
    return took;
  }

  void note_job() const {
    if (run({"/bin/sh", "-c", "squeue -h -n bench -o %A >'" + folder_ + "/job'"}) != 0) {
      throw std::runtime_error("squeue failed in the sandbox");
    }
  }
  void forget_job() const { std::remove((folder_ + "/job").c_str()); }

 private:
  [[nodiscard]] std::string sandbox() const { return folder_ + "/s"; }
  [[nodiscard]] std::string plugstack() const { return sandbox() + "/t/etc/plugstack.conf"; }

  std::string scripts_, folder_, with_plugin_;
  bool started_ = false;
};

json measure_srun(const std::string& scripts, const std::string& plugin, int count) {
  const Cluster cluster(scripts, plugin);
  if (!cluster.started()) return nullptr;
  cluster.note_job();
  for (int i = 0; i < 3; ++i) cluster.srun_true(i % 2 == 0);  // warm the caches
  Samples with, without, difference;
  for (int i = 0; i < count; ++i) {
    double pair[2] = {};
    for (const int turn : {0, 1}) {
      const int which = (turn + i) % 2;
      pair[which] = cluster.srun_true(which == 1);
    }
    without.push_back(pair[0]);
    with.push_back(pair[1]);
    difference.push_back(pair[1] - pair[0]);
  }
  cluster.forget_job();
  return {
      {"without", summary(without)}, {"with", summary(with)}, {"difference", summary(difference)}};
}

}  // namespace

int main(int argc, char** argv) try {
  int count = 200;
  std::string plugin = PLUGIN_FILE, scripts = SANDBOX_SCRIPTS;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      count = 20;
    } else if (word == "--plugin" && i + 1 < argc) {
      plugin = argv[++i];
    } else if (word == "--sandbox" && i + 1 < argc) {
      scripts = argv[++i];
    } else {
      std::cerr
          << "Usage: plugin_overhead [--quick] [--plugin FILE.so] [--sandbox SCRIPT-FOLDER]\n";
      return word == "--help" ? 0 : 2;
    }
  }
  json hooks = {{"remote", measure_hooks(plugin.c_str(), S_CTX_REMOTE, count)},
                {"allocator", measure_hooks(plugin.c_str(), S_CTX_ALLOCATOR, count)},
                {"local", measure_hooks(plugin.c_str(), S_CTX_LOCAL, count)},
                {"slurmd", measure_hooks(plugin.c_str(), S_CTX_SLURMD, count)}};
  double worst = 0;
  for (const json& context : hooks) worst = std::max(worst, context["high95"].get<double>());
  const json report = {{"benchmark", "plugin_overhead"},
                       {"plugin.hooks_ms", hooks},
                       {"plugin.hooks_worst_high95_ms", worst},
                       {"plugin.hooks_bar_ms", 0.1},
                       {"plugin.hooks_met", worst <= 0.1},
                       {"plugin.load_ms", measure_load(plugin.c_str(), count)},
                       {"srun_true_ms", measure_srun(scripts, plugin, count)}};
  std::cout << report.dump(2) << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << "plugin_overhead: " << error.what() << "\n";
  return 1;
}
