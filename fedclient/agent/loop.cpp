#include "fedclient/agent/loop.h"

#include <algorithm>
#include <system_error>

#include "core/base/file.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

constexpr std::size_t output_bytes_max = 64u << 20;
constexpr std::size_t detail_bytes_max = 500;
constexpr Duration wait_said_again = std::chrono::minutes(10);

// The last words of a job that failed, so that nobody has to look for its output first.
std::string last_words(const std::filesystem::path& directory, const std::string& job_id) {
  const std::filesystem::path path = directory / ("slurm-" + job_id + ".out");
  Result<std::string> output = read_file(path, output_bytes_max);
  if (!output) return "";
  std::vector<std::string> lines = split(*output, '\n');
  while (!lines.empty() && trim(lines.back()).empty()) lines.pop_back();
  if (lines.empty()) return "its output is empty: " + path.string();
  // Errors of ours are a sentence and, on the next line, its cure.
  std::string last(trim(lines.back()));
  if (lines.size() > 1) last = std::string(trim(lines[lines.size() - 2])) + " / " + last;
  if (last.size() > detail_bytes_max) last.resize(detail_bytes_max);
  return "the end of " + path.string() + ": " + last;
}

class Loop {
 public:
  Loop(AgentMachine& machine, Scheduler& scheduler, AgentServer& server, const AgentStore& store,
       const AgentLoopSettings& settings, const Log& log)
      : machine_(machine),
        scheduler_(scheduler),
        server_(server),
        store_(store),
        settings_(settings),
        log_(log) {}

  int run() {
    for (;;) {
      if (std::string signal = settings_.signal(); !signal.empty()) {
        log_.info("stopping", {{"signal", signal}, {"jobs", machine_.live_jobs()}});
        machine_.stop(signal, now());
      }
      const AgentMachine::Step step = machine_.step(now());
      if (step == AgentMachine::Step::over) break;
      if (!perform(step)) return static_cast<int>(Code::storage);
    }
    report();
    return machine_.exit_code();
  }

 private:
  [[nodiscard]] Instant now() const { return settings_.now(); }

  // False if the state could not be stored: going on could end in a second job.
  bool perform(AgentMachine::Step step) {
    switch (step) {
      case AgentMachine::Step::store:
        return save();
      case AgentMachine::Step::poll:
        poll();
        return true;
      case AgentMachine::Step::ask_plan:
        ask_plan();
        return true;
      case AgentMachine::Step::look_up:
        look_up();
        return true;
      case AgentMachine::Step::submit:
        submit();
        return true;
      case AgentMachine::Step::inspect:
        inspect();
        return true;
      case AgentMachine::Step::settle:
        settle();
        return true;
      case AgentMachine::Step::cancel:
        cancel();
        return true;
      case AgentMachine::Step::wait:
        wait();
        return true;
      case AgentMachine::Step::over:
        break;
    }
    return true;
  }

  bool save() {
    if (Status saved = store_.save(machine_.state()); !saved) {
      log_.error(saved.error());
      return false;
    }
    machine_.stored();
    return true;
  }

  void poll() {
    const Instant begin = now();
    Result<std::vector<JobView>> views = scheduler_.poll();
    const Instant end = now();
    if (!views) {
      log_.warning("the scheduler did not answer", {{"cause", views.error().message}});
      machine_.poll_failed(views.error(), end);
      return;
    }
    std::map<std::string, JobPhase> before;
    for (const TrackedJob& job : machine_.state().jobs) before[job.token] = job.phase;
    machine_.polled(*views, end - begin, end);
    for (const TrackedJob& job : machine_.state().jobs) note_phase(job, before);
  }

  void note_phase(const TrackedJob& job, const std::map<std::string, JobPhase>& before) {
    const auto known = before.find(job.token);
    if (known == before.end()) {
      log_.info("job found again", {{"job", job.handle.id}, {"state", job.state}});
    } else if (known->second != job.phase) {
      log_.info("job changed", {{"job", job.handle.id},
                                {"state", job.state},
                                {"reason", job.reason},
                                {"restarts", job.restart_count}});
    }
  }

  void ask_plan() {
    Result<PlanAnswer> answer = server_.plan(machine_.plan_request());
    if (!answer) {
      log_.warning("no plan", {{"cause", answer.error().message}, {"cure", answer.error().cure}});
      machine_.plan_failed(answer.error(), now());
      return;
    }
    if (answer->verb != PlanAnswer::Verb::wait) {
      log_.info("plan", {{"verb", to_text(answer->verb)},
                         {"reason", answer->reason},
                         {"steps", answer->local_steps},
                         {"wait_s", answer->retry_after_s},
                         {"predicted_wait_s", answer->predicted_wait_s.value_or(-1)}});
    }
    machine_.plan_answered(*answer, now());
  }

  void look_up() {
    Result<std::optional<JobView>> found = scheduler_.find_by_token(machine_.intent().token);
    if (!found) {
      log_.warning("the scheduler did not answer", {{"cause", found.error().message}});
      machine_.look_up_failed(found.error(), now());
      return;
    }
    if (*found) {
      log_.info("job found again",
                {{"job", (*found)->handle.id}, {"token", machine_.intent().token}});
    }
    machine_.looked_up(*found, now());
  }

  void submit() {
    const Intent intent = machine_.intent();
    const std::filesystem::path directory = store_.job_directory(intent.token);
    std::error_code failure;
    std::filesystem::create_directories(directory, failure);
    if (failure) {
      machine_.submit_failed(
          storage_error("make the directory '" + directory.string() + "'", failure.value()), now());
      return;
    }
    Result<JobHandle> handle = scheduler_.submit(job_request(settings_.profile, store_, intent));
    if (!handle) {
      log_.warning("not submitted", {{"cause", handle.error().message},
                                     {"code", code_name(handle.error().code)},
                                     {"token", intent.token}});
      machine_.submit_failed(handle.error(), now());
      return;
    }
    log_.info("submitted", {{"job", handle->id},
                            {"cluster", handle->cluster},
                            {"steps", intent.plan.local_steps},
                            {"predicted_wait_s", intent.plan.predicted_wait_s.value_or(-1)},
                            {"token", intent.token}});
    machine_.submitted(*handle, now());
  }

  void inspect() {
    const TrackedJob job = machine_.job_at_hand();
    Result<JobOutcome> outcome = scheduler_.outcome(job.handle);
    if (outcome) {
      machine_.inspected(*outcome, now());
    } else {
      machine_.inspect_failed(outcome.error(), now());
    }
  }

  void settle() {
    const TrackedJob job = machine_.job_at_hand();
    const std::filesystem::path directory = store_.job_directory(job.token);
    Result<int> sent = server_.deliver(directory);
    if (!sent) {
      log_.warning("what the job left could not be sent",
                   {{"job", job.handle.id}, {"cause", sent.error().message}});
      if (may_pass(sent.error().code)) {
        machine_.settle_failed(sent.error(), now());
        return;
      }
    }
    std::string detail = job.detail;
    if (job.state != "COMPLETED") {
      const std::string words = last_words(directory, job.handle.id);
      if (!words.empty()) detail += (detail.empty() ? "" : "; ") + words;
    }
    const AttemptId attempt = make_attempt_id(job.handle.id, job.restart_count);
    Status told = server_.end_job(attempt, {"", job.state, detail});
    if (!told && told.error().code != Code::not_found) {
      log_.warning("the job's end could not be reported",
                   {{"job", job.handle.id}, {"cause", told.error().message}});
      machine_.settle_failed(told.error(), now());
      return;
    }
    log_.info("job ended", {{"job", job.handle.id},
                            {"state", job.state},
                            {"detail", detail},
                            {"updates_sent", sent ? *sent : 0}});
    machine_.settled(now(), sent && *sent > 0);
    store_.remove_old_jobs(machine_.state(), settings_.job_folders_kept);
  }

  void cancel() {
    Result<CancelReport> report = scheduler_.cancel(machine_.to_cancel());
    if (!report) {
      log_.warning("jobs could not be cancelled", {{"cause", report.error().message}});
      machine_.cancel_failed(report.error(), now());
      return;
    }
    log_.info("cancelled",
              {{"jobs", join(report->cancelled, ",")}, {"not_ours", join(report->not_ours, ",")}});
    machine_.cancel_sent(now());
  }

  void wait() {
    // The same few reasons take turns: each is said once in a while.
    const auto said = waits_said_.find(machine_.waiting_for());
    if (said == waits_said_.end() || now() - said->second >= wait_said_again) {
      waits_said_[machine_.waiting_for()] = now();
      log_.info("waiting", {{"for", machine_.waiting_for()},
                            {"wait_s", std::max(0.0, to_seconds(machine_.wake_at() - now()))},
                            {"jobs", machine_.live_jobs()}});
    }
    settings_.sleep_until(machine_.wake_at());
  }

  void report() {
    if (machine_.error()) {
      log_.error(*machine_.error(), {{"jobs_left", join(machine_.left(), ",")}});
    } else {
      log_.info("agent over",
                {{"reason", machine_.reason()}, {"jobs_left", join(machine_.left(), ",")}});
    }
  }

  AgentMachine& machine_;
  Scheduler& scheduler_;
  AgentServer& server_;
  const AgentStore& store_;
  const AgentLoopSettings& settings_;
  const Log& log_;
  std::map<std::string, Instant> waits_said_;
};

}  // namespace

std::string job_comment(const RunId& run, const FacilityId& facility, const std::string& token) {
  return "fedqueue:" + run.str() + ":" + facility.str() + ":" + token;
}

JobRequest job_request(const AgentJobProfile& profile, const AgentStore& store,
                       const Intent& intent) {
  const std::filesystem::path directory = store.job_directory(intent.token);
  JobRequest request;
  request.token = intent.token;
  request.comment = job_comment(profile.run, profile.facility, intent.token);
  request.name = "fedqueue-" + profile.run.str();
  request.script = profile.script;
  request.output = directory / "slurm-%j.out";
  request.time_limit_s = profile.time_limit_s;
  const double planned = intent.plan.time_limit_s;
  if (planned > 0) {
    request.time_limit_s =
        profile.time_limit_s > 0 ? std::min(planned, profile.time_limit_s) : planned;
  }
  request.environment = profile.environment;
  request.environment["FEDQUEUE_RUN"] = profile.run.str();
  request.environment["FEDQUEUE_FACILITY"] = profile.facility.str();
  request.environment["FEDQUEUE_PLAN_KEY"] = intent.token;
  request.environment["FEDQUEUE_JOB_DIRECTORY"] = directory.string();
  request.plugin_options = profile.plugin_options;
  return request;
}

int run_agent(AgentMachine& machine, Scheduler& scheduler, AgentServer& server,
              const AgentStore& store, const AgentLoopSettings& settings, const Log& log) {
  return Loop(machine, scheduler, server, store, settings, log).run();
}

}  // namespace fedqueue
