#include "fedclient/trainer/queue_record.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/base/text.h"

extern char** environ;

namespace fedqueue {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kOutputMax = std::size_t{1} << 20;

Error scheduler_error(const std::string& why) {
  return {Code::scheduler, "ask scontrol for this job's times: " + why,
          "Training goes on without a queue record; the plugin would supply it."};
}

std::optional<std::int64_t> number(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  return text ? parse_integer(*text) : std::nullopt;
}

struct Times {
  std::optional<std::int64_t> submit, eligible, start, end;
};

// The wait is counted from when the job could have started: held jobs are our own doing.
QueueRecord queue_record(const Times& times, std::int64_t now_s) {
  QueueRecord record;
  if (times.start && times.submit) {
    const std::int64_t eligible = std::max(times.eligible.value_or(*times.submit), *times.submit);
    record.queue_wait_s = static_cast<double>(std::max<std::int64_t>(0, *times.start - eligible));
    record.held_s = static_cast<double>(std::max<std::int64_t>(0, eligible - *times.submit));
  }
  if (times.start && times.end && *times.end > *times.start) {
    record.time_limit_s = static_cast<double>(*times.end - *times.start);
    record.remaining_s = static_cast<double>(std::max<std::int64_t>(0, *times.end - now_s));
  }
  return record;
}

// "KEY=value KEY=value …"; values with spaces (names, comments) do not matter here.
std::map<std::string, std::string> parse_pairs(std::string_view line) {
  std::map<std::string, std::string> pairs;
  for (const std::string& word : split(line, ' ')) {
    const std::size_t equal = word.find('=');
    // The first of a name wins, so that a job's own Comment= cannot overwrite what came before.
    if (equal != std::string::npos) pairs.emplace(word.substr(0, equal), word.substr(equal + 1));
  }
  return pairs;
}

// The digits that name a job outside a scheduler: unique on this host for all that matters.
std::string made_up_id(std::int64_t now_s) {
  return std::to_string(now_s) + std::to_string(::getpid() % 100000);
}

// Reads until the end, the deadline, or too much.
Result<std::string> read_until(int fd, Clock::time_point deadline) {
  std::string output;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return scheduler_error("it did not answer in time");
    pollfd waiting{fd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return scheduler_error(std::strerror(errno));
    if (ready <= 0) continue;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return scheduler_error(std::strerror(errno));
    if (count == 0) return output;
    output.append(buffer.data(), static_cast<std::size_t>(count));
    if (output.size() > kOutputMax) return scheduler_error("it answered more than 1 MiB");
  }
}

// Waits for the child until the deadline, then kills it.
int reap(pid_t child, Clock::time_point deadline) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() >= deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return status;
    }
    ::usleep(2000);
  }
  return status;
}

}  // namespace

AskScheduler ask_scontrol(double timeout_s) {
  return [timeout_s](const std::string& job_id) -> Result<std::string> {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return scheduler_error(std::strerror(errno));
    FileDescriptor reader(ends[0]);
    FileDescriptor writer(ends[1]);
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text(*entry);
      if (!text.starts_with("TZ=") && !text.starts_with("SLURM_TIME_FORMAT=")) {
        environment.emplace_back(text);
      }
    }
    environment.insert(environment.end(), {"TZ=UTC", "SLURM_TIME_FORMAT=%s"});
    std::vector<char*> variables;
    for (std::string& text : environment) variables.push_back(text.data());
    variables.push_back(nullptr);
    std::vector<std::string> words = {"scontrol", "show", "job", "-o", job_id};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, writer.get(), 1);
    pid_t child = 0;
    const int failed =
        ::posix_spawnp(&child, "scontrol", &actions, nullptr, arguments.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) return scheduler_error(std::strerror(failed));
    writer.reset();
    const Clock::time_point deadline =
        Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1000));
    Result<std::string> output = read_until(reader.get(), deadline);
    const int status = reap(child, output ? deadline : Clock::now());
    if (!output) return output;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return scheduler_error("it failed");
    return output;
  };
}

Result<JobRecord> parse_scontrol(const std::string& text, const std::string& job_id,
                                 std::int64_t now_s) {
  // An array's base id returns the records of all its tasks.
  for (const std::string& line : split(text, '\n')) {
    auto pairs = parse_pairs(line);
    if (pairs["JobId"] != job_id) continue;
    JobRecord record;
    record.source = "scontrol";
    record.attempt =
        make_attempt_id(job_id, static_cast<int>(parse_integer(pairs["Restarts"]).value_or(0)));
    const Times times{parse_integer(pairs["SubmitTime"]), parse_integer(pairs["EligibleTime"]),
                      parse_integer(pairs["StartTime"]), parse_integer(pairs["EndTime"])};
    record.queue = queue_record(times, now_s);
    record.start_s = times.start;
    return record;
  }
  return scheduler_error("its answer does not speak of job " + job_id);
}

Result<JobRecord> read_job_record(const Environment& environment, const AskScheduler& ask,
                                  std::int64_t now_s) {
  if (const auto problem = environment("FED_ERROR"); problem && !problem->empty()) {
    return Error{Code::usage, *problem, "Correct the --fed-* options of the job and submit again."};
  }
  const std::string job_id = environment("SLURM_JOB_ID").value_or("");
  const int restarts =
      static_cast<int>(number(environment, "FED_RESTART_COUNT")
                           .value_or(number(environment, "SLURM_RESTART_COUNT").value_or(0)));
  JobRecord record;
  record.source = "none";
  if (!parse_integer(job_id)) {
    // PBS writes 123.server; its times are the agent's business.
    const std::string pbs = split(environment("PBS_JOBID").value_or(""), '.').front();
    record.attempt = make_attempt_id(parse_integer(pbs) ? pbs : made_up_id(now_s), 0);
    return record;
  }
  record.attempt = make_attempt_id(job_id, restarts);
  const Times times{number(environment, "FED_SUBMIT_TIME"),
                    number(environment, "FED_ELIGIBLE_TIME"), number(environment, "FED_START_TIME"),
                    number(environment, "FED_END_TIME")};
  // A job submitted from within another inherits its FED_*: believe only what is about this one.
  const std::string recorded_id = environment("FED_JOB_ID").value_or(job_id);
  if (times.start && recorded_id == job_id) {
    record.source = "plugin";
    record.queue = queue_record(times, now_s);
    record.start_s = times.start;
    return record;
  }
  Result<std::string> text = ask(job_id);
  if (!text) return record;
  Result<JobRecord> parsed = parse_scontrol(*text, job_id, now_s);
  return parsed ? *parsed : record;
}

}  // namespace fedqueue
