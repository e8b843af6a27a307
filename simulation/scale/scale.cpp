#include "simulation/scale/scale.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/file.h"
#include "fedserver/driver/driver.h"

namespace fedqueue::simulation {
namespace {

constexpr double kRoundSeconds = 10;

double resident_bytes() {
  long pages = 0;
  long resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// Rows in a file that nobody else sees: neither in memory, which is measured, nor made durable.
class FileJournal final : public Journal {
 public:
  FileJournal() : file_(std::tmpfile()) {}
  ~FileJournal() override {
    if (file_ != nullptr) std::fclose(file_);
  }
  FileJournal(const FileJournal&) = delete;
  FileJournal& operator=(const FileJournal&) = delete;

  Result<std::vector<JournalRow>> rows(std::int64_t after, std::size_t limit) override {
    std::vector<JournalRow> found;
    if (file_ == nullptr || after >= facts_) return found;
    if (after == 0) std::rewind(file_);
    Head head;
    while (found.size() < limit && std::fread(&head, sizeof head, 1, file_) == 1) {
      JournalRow row{after + static_cast<std::int64_t>(found.size()) + 1, head.at,
                     std::string(head.kind_bytes, ' '), std::string(head.text_bytes, ' ')};
      if (std::fread(row.kind.data(), 1, row.kind.size(), file_) != row.kind.size() ||
          std::fread(row.text.data(), 1, row.text.size(), file_) != row.text.size()) {
        return storage_error("read the journal's file", errno);
      }
      found.push_back(std::move(row));
    }
    return found;
  }
  Status append(std::span<const JournalRow> rows) override {
    if (file_ == nullptr) return storage_error("make a file for the journal", errno);
    for (const JournalRow& row : rows) {
      const Head head{row.at, row.kind.size(), row.text.size()};
      if (std::fwrite(&head, sizeof head, 1, file_) != 1 ||
          std::fwrite(row.kind.data(), 1, row.kind.size(), file_) != row.kind.size() ||
          std::fwrite(row.text.data(), 1, row.text.size(), file_) != row.text.size()) {
        return storage_error("write the journal's file", errno);
      }
      bytes_ += row.kind.size() + row.text.size();
    }
    facts_ += static_cast<std::int64_t>(rows.size());
    return {};
  }
  Result<Instant> uptime() override { return Instant{}; }
  Status note_uptime(Instant) override { return {}; }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t facts() const { return facts_; }

 private:
  struct Head {
    Instant at{};
    std::size_t kind_bytes = 0;
    std::size_t text_bytes = 0;
  };
  std::FILE* file_ = nullptr;
  std::size_t bytes_ = 0;
  std::int64_t facts_ = 0;
};

// Reductions are done at once: the next version has a name and no bytes.
class InstantReducer final : public Effects {
 public:
  void perform(const Action& action) override {
    if (const auto* reduce = std::get_if<StartReduce>(&action)) {
      ModelRecord model;
      model.version = reduce->plan.input_version + 1;
      model.file = "round-" + std::to_string(model.version);
      model.sha256 = std::string(64, '0');
      model.bytes = 1000;
      done_.push_back(ReduceFinished{model, 1.0});
    }
  }
  [[nodiscard]] std::vector<Event> take() { return std::exchange(done_, {}); }

 private:
  std::vector<Event> done_;
};

// All facilities in step: each does one thing, then each the next.
class Crowd {
 public:
  Crowd(Driver& driver, InstantReducer& reducer, int count) : driver_(driver), reducer_(reducer) {
    for (int i = 0; i < count; ++i)
      members_.push_back({FacilityId("f-" + std::to_string(i)), "", {}});
  }

  Status enrol() {
    return all(
        "enrol",
        [](Member& member) -> Event {
          return FacilityEnrolled{member.id, 600};
        },
        [](Member&, const Answer& answer) { return !std::holds_alternative<Error>(answer); });
  }

  Status round(int number) {
    const std::string job = std::to_string(1000 + number);
    if (Status status = plan(job); !status) return status;
    if (Status status = start(job); !status) return status;
    if (Status status = beat(job); !status) return status;
    if (Status status = deliver(job); !status) return status;
    now_ += from_seconds(2 * kRoundSeconds);  // whoever waits for a timer has waited
    turn();
    return leave(job);
  }

  [[nodiscard]] std::int64_t events() const { return events_; }

 private:
  struct Member {
    FacilityId id;
    std::string token;
    Segment segment;
  };
  using Ask = std::function<Event(Member&)>;
  using Check = std::function<bool(Member&, const Answer&)>;

  Status plan(const std::string& job) {
    return all(
        "ask for a plan",
        [&](Member& member) -> Event {
          return PlanRequested{member.id, {member.id.str() + "-" + job, 0, 0, std::nullopt}};
        },
        [](Member&, const Answer& answer) {
          const auto* plan = std::get_if<PlanAnswer>(&answer);
          return plan != nullptr && plan->verb == PlanAnswer::Verb::submit;
        });
  }

  Status start(const std::string& job) {
    return all(
        "register a job",
        [&](Member& member) -> Event {
          JobRegistration registration;
          registration.attempt = make_attempt_id(job, 0);
          registration.nonce = "n";
          registration.plan_key = member.id.str() + "-" + job;
          registration.queue.queue_wait_s = 1;
          registration.queue.time_limit_s = 4 * kRoundSeconds;
          registration.queue.remaining_s = 4 * kRoundSeconds;
          return AttemptArrived{member.id, registration, "token-" + job};
        },
        [](Member& member, const Answer& answer) {
          const auto* started = std::get_if<JobAnswer>(&answer);
          if (started == nullptr || started->next.kind != Next::Kind::segment) return false;
          member.token = started->token;
          member.segment = started->next.segment;
          return true;
        });
  }

  Status beat(const std::string& job) {
    return all(
        "send a heartbeat",
        [&](Member& member) -> Event {
          return HeartbeatArrived{member.id, make_attempt_id(job, 0), {member.token, 1}};
        },
        [](Member&, const Answer& answer) {
          return std::holds_alternative<HeartbeatAnswer>(answer);
        });
  }

  // The answers may come with the publication, after the others'.
  Status deliver(const std::string& job) {
    return all(
        "send an update",
        [&](Member& member) -> Event {
          UpdateStored stored;
          stored.facility = member.id;
          stored.id = make_update_id(member.id, make_attempt_id(job, 0), member.segment.index);
          stored.metadata.base = member.segment.base;
          stored.metadata.steps_run = member.segment.local_steps;
          stored.metadata.seconds_per_step = 0.01;
          stored.metadata.train_seconds = 0.01 * static_cast<double>(member.segment.local_steps);
          stored.metadata.samples = 10;
          stored.token = member.token;
          stored.digest = std::string(32, 'a');
          stored.bytes = 1000;
          stored.norm = 1;
          return stored;
        },
        [](Member&, const Answer& answer) {
          const auto* update = std::get_if<UpdateAnswer>(&answer);
          return update != nullptr && update->disposition != Disposition::rejected;
        });
  }

  Status leave(const std::string& job) {
    return all(
        "leave",
        [&](Member& member) -> Event {
          return AttemptLeft{member.id, make_attempt_id(job, 0), {member.token, "done", ""}};
        },
        [](Member&, const Answer& answer) { return !std::holds_alternative<Error>(answer); });
  }

  Status all(const char* what, const Ask& ask, const Check& check) {
    failure_.reset();
    for (Member& member : members_) {
      const bool taken = driver_.post(ask(member), [this, what, &member, &check](Answer answer) {
        if (!failure_ && !check(member, answer)) failure_ = unexpected(what, member, answer);
      });
      if (!taken) return Error{Code::internal, "the driver's queue is full", ""};
      now_ += Duration(100);
      turn();
      if (failure_) return *failure_;
    }
    return {};
  }

  static Error unexpected(const char* what, const Member& member, const Answer& answer) {
    std::string detail = "an unexpected answer";
    if (const auto* error = std::get_if<Error>(&answer)) detail = error->message;
    if (const auto* plan = std::get_if<PlanAnswer>(&answer)) detail = plan->reason;
    if (const auto* job = std::get_if<JobAnswer>(&answer)) detail = job->next.reason;
    if (const auto* update = std::get_if<UpdateAnswer>(&answer)) detail = update->reason;
    return {Code::internal, member.id.str() + " could not " + what + ": " + detail, ""};
  }

  void turn() {
    ++events_;
    driver_.turn(now_);
    for (Event& event : reducer_.take()) {
      ++events_;
      (void)driver_.post(std::move(event));
      driver_.turn(now_);
    }
  }

  Driver& driver_;
  InstantReducer& reducer_;
  std::deque<Member> members_;
  std::optional<Error> failure_;
  Instant now_{};
  std::int64_t events_ = 0;
};

}  // namespace

namespace {

// A second server on the same journal must come to the same state.
Status measure_replay(const EngineConfig& config, const ModelRecord& initial, FileJournal& journal,
                      const Engine& original, ScaleResult& result) {
  InstantReducer unused;
  const auto begin = std::chrono::steady_clock::now();
  const auto again = Driver::create(config, initial, journal, unused, {}, [] {});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!again) return again.error();
  if ((*again)->engine().durable_state() != original.durable_state()) {
    return Error{Code::internal, "the replayed journal makes another state than the run had", ""};
  }
  result.replay_microseconds_per_fact = took.count() * 1e6 / static_cast<double>(result.facts);
  return {};
}

}  // namespace

Result<ScaleResult> measure_scale(const ScaleOptions& options) {
  const double before = resident_bytes();
  FileJournal journal;
  InstantReducer reducer;
  EngineConfig config;
  config.run = "scale";
  config.policy = options.policy;
  config.policy.t_sync_s = kRoundSeconds;
  ModelRecord initial{0, "round-0", std::string(64, '0'), 1000};
  auto driver = Driver::create(config, initial, journal, reducer, {}, [] {});
  if (!driver) return driver.error();
  Crowd crowd(**driver, reducer, options.facilities);
  if (Status status = crowd.enrol(); !status) return status.error();
  const std::int64_t enrolled = crowd.events();
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < options.rounds; ++round)
    if (Status status = crowd.round(round); !status) return status.error();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ScaleResult result;
  result.facilities = options.facilities;
  result.events = crowd.events() - enrolled;
  result.facts = journal.facts();
  result.versions = (*driver)->engine().state().latest;
  result.seconds = took.count();
  result.microseconds_per_event = took.count() * 1e6 / static_cast<double>(result.events);
  result.journal_bytes_per_event =
      static_cast<double>(journal.bytes()) / static_cast<double>(crowd.events());
  result.journal_bytes_per_fact =
      static_cast<double>(journal.bytes()) / static_cast<double>(result.facts);
  result.resident_bytes = std::max(0.0, resident_bytes() - before);
  result.bytes_per_facility = result.resident_bytes / options.facilities;
  const Status replayed = measure_replay(config, initial, journal, (*driver)->engine(), result);
  if (!replayed) return replayed.error();
  return result;
}

}  // namespace fedqueue::simulation
