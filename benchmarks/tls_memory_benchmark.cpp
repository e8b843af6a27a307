// The server's memory while a whole round goes through it, in models.
//
//   bench_server_memory [--server fedserver] [--directory DIR] [--facilities 8] [--mebibytes 256]
//                       [--quick]
//
// Starts the real server with a model of that size, lets all facilities upload at the same time
// through the real link, waits until the round is published, and prints one JSON object:
//
//   server.peak_models            peak anonymous memory of the server process over the model's size
//   server.idle_bytes             anonymous memory before the first upload
//   server.peak_anonymous_bytes   the peak itself, sampled from /proc every few milliseconds
//   server.round_s                from the first upload to the published version
//
// Anonymous memory is what cannot be given back to the disk; mapped and cached files are not part
// of it.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/program_options.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/tensor/file.h"
#include "fedclient/link/link.h"
#include "fedserver/certificates/commands.h"

namespace {

namespace fs = std::filesystem;
namespace options = boost::program_options;
using namespace fedqueue;

constexpr std::size_t mebibyte = 1u << 20;

[[noreturn]] void give_up(const Error& error) {
  std::cerr << "bench_server_memory: " << error.message << '\n';
  std::exit(exit_code(error));
}

template <typename T>
T must(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(*result);
}

void must(const Status& status) {
  if (!status) give_up(status.error());
}

struct Setting {
  std::string server = FEDQUEUE_SERVER_PROGRAM;
  std::string directory = ".";
  int facilities = 8;
  std::size_t mebibytes = 256;
};

Setting read_setting(int argc, char** argv) {
  Setting setting;
  options::options_description description("bench_server_memory");
  description.add_options()("help", "show this text")("server", options::value(&setting.server),
                                                      "the fedserver program")(
      "directory", options::value(&setting.directory), "where the run directory is made")(
      "facilities", options::value(&setting.facilities), "that upload at the same time")(
      "mebibytes", options::value(&setting.mebibytes), "size of the model")(
      "quick", "three facilities and 8 MiB, to see that it works");
  options::variables_map given;
  try {
    options::store(options::parse_command_line(argc, argv, description), given);
    options::notify(given);
  } catch (const options::error& fault) {
    give_up({Code::usage, fault.what(), ""});
  }
  if (given.contains("help")) {
    std::cout << description;
    std::exit(0);
  }
  if (given.contains("quick")) {
    setting.facilities = 3;
    setting.mebibytes = 8;
  }
  return setting;
}

// A file of one float tensor, all elements the same.
void make_model(const fs::path& path, std::size_t bytes, float value) {
  tensor::TensorInfo weight;
  weight.name = "weight";
  weight.shape = {static_cast<std::int64_t>(bytes / sizeof(float))};
  tensor::Writer writer =
      must(tensor::Writer::create(path, must(tensor::lay_out({std::move(weight)}))));
  const std::vector<float> block(mebibyte / sizeof(float), value);
  for (std::size_t done = 0; done < bytes; done += mebibyte) {
    must(writer.write(std::as_bytes(std::span(block))));
  }
  must(writer.finish());
  must(writer.commit(path));
}

// Its output goes to the log, which is kept when something goes wrong.
pid_t start_program(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(output, 1);
    ::dup2(output, 2);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  return child;
}

void run_program(const std::vector<std::string>& words, const fs::path& log) {
  int status = 0;
  ::waitpid(start_program(words, log), &status, 0);
  if (status != 0) {
    give_up({Code::usage, "'" + join(words, " ") + "' failed; see '" + log.string() + "'", ""});
  }
}

std::uint64_t anonymous_bytes(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/smaps_rollup");
  std::string word;
  std::uint64_t kibibytes = 0;
  while (in >> word) {
    if (word == "Anonymous:" && in >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

// The real server of one run.
class Server {
 public:
  explicit Server(const Setting& setting) {
    std::string pattern = (fs::absolute(setting.directory) / "bench-memory-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) give_up(storage_error("create a folder", errno));
    folder_ = pattern;
    run_ = folder_ / "run";
    const fs::path initial = folder_ / "initial.safetensors";
    make_model(initial, setting.mebibytes * mebibyte, 0.5f);
    make_model(update(), setting.mebibytes * mebibyte, 0.001f);
    run_program({setting.server, "init", run_.string(), "--run", "bench", "--initial",
                 initial.string(), "--policy", "fedavg", "--quorum",
                 std::to_string(setting.facilities), "--rounds", "1", "--port", "0"},
                log());
    for (int i = 0; i < setting.facilities; ++i) enrol(name_of(i));
    process_ = start_program({setting.server, "run", run_.string()}, log());
    find_url();
  }
  ~Server() {
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  [[nodiscard]] static std::string name_of(int facility) {
    return "site-" + std::to_string(facility);
  }
  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] fs::path update() const { return folder_ / "update.safetensors"; }

  [[nodiscard]] std::unique_ptr<Link> link(const std::string& facility) const {
    const fs::path kit = files().kit({IdentityKind::facility, facility});
    LinkConfig config;
    config.server_url = url_;
    config.run = RunId("bench");
    config.ca = kit / "ca.crt";
    config.certificate = kit / "client.crt";
    config.key = kit / "client.key";
    config.proxy = "direct";
    config.answer_timeout = std::chrono::minutes(5);
    return must(Link::create(std::move(config)));
  }

 private:
  [[nodiscard]] fs::path log() const { return folder_ / "server.log"; }
  [[nodiscard]] CertificateFiles files() const { return CertificateFiles{run_}; }

  void enrol(const std::string& facility) {
    CertificateRun run;
    run.files = files();
    run.run = "bench";
    ClientCertificateOrder order{.identity = {IdentityKind::facility, facility}};
    order.samples = 100;
    must(issue_client_certificate(run, order));
  }

  void find_url() {
    for (;;) {
      const Result<std::string> text = read_file(run_ / "server" / "endpoint");
      if (text) {
        url_ = std::string(trim(*text));
        return;
      }
      if (::waitpid(process_, nullptr, WNOHANG) != 0) {
        give_up({Code::network, "the server ended before it listened; see '" + log().string() + "'",
                 ""});
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  fs::path folder_;
  fs::path run_;
  std::string url_;
  pid_t process_ = -1;
};

// What one facility does in the round: register a job and deliver its update.
void take_part(const Server& server, int number, std::atomic<int>& ready, int facilities) {
  const std::unique_ptr<Link> link = server.link(Server::name_of(number));
  PlanRequest request;
  request.key = "plan-" + std::to_string(number);
  const PlanAnswer plan = must(link->plan(request));
  JobRegistration registration;
  registration.attempt = make_attempt_id(std::to_string(1000 + number), 0);
  registration.nonce = "n";
  registration.plan_key = plan.key;
  registration.queue.queue_wait_s = 0;
  const JobAnswer job = must(link->enrol(registration));
  if (job.next.kind != Next::Kind::segment) {
    give_up({Code::conflict, "the server gave no work: " + job.next.reason, ""});
  }
  ++ready;
  while (ready < facilities) std::this_thread::yield();
  UpdateMetadata metadata;
  metadata.base = job.next.segment.base;
  metadata.steps_run = job.next.segment.local_steps;
  metadata.seconds_per_step = 0.01;
  const UpdateId id = make_update_id(FacilityId(Server::name_of(number)), registration.attempt,
                                     job.next.segment.index);
  must(link->upload_update(id, server.update(), metadata, job.token, RetryPolicy{}));
}

}  // namespace

int main(int argc, char** argv) {
  const Setting setting = read_setting(argc, argv);
  const Server server(setting);
  const std::uint64_t idle = anonymous_bytes(server.process());
  std::atomic<bool> measuring{true};
  std::atomic<std::uint64_t> peak{idle};
  std::thread sampler([&] {
    while (measuring) {
      peak = std::max(peak.load(), anonymous_bytes(server.process()));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  std::atomic<int> ready{0};
  std::vector<std::thread> facilities;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < setting.facilities; ++i) {
    facilities.emplace_back([&, i] { take_part(server, i, ready, setting.facilities); });
  }
  for (std::thread& facility : facilities) facility.join();
  const std::unique_ptr<Link> link = server.link(Server::name_of(0));
  while (must(link->latest_version()) < 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::chrono::duration<double> round = std::chrono::steady_clock::now() - start;
  measuring = false;
  sampler.join();
  const double model = static_cast<double>(setting.mebibytes * mebibyte);
  const nlohmann::json out = {{"server",
                               {{"peak_models", static_cast<double>(peak.load()) / model},
                                {"peak_anonymous_bytes", peak.load()},
                                {"idle_bytes", idle},
                                {"model_bytes", setting.mebibytes * mebibyte},
                                {"facilities", setting.facilities},
                                {"round_s", round.count()}}}};
  std::cout << out.dump(2) << '\n';
  return 0;
}
