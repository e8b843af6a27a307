// The agent of a facility: the steps of the product's AgentMachine, as fedclient/agent/loop.cpp and
// fedclient/agent_server.cpp perform them, in virtual time.
#include <utility>

#include "simulation/world/facility.h"

namespace fedqueue::simulation {
namespace {

// As in fedclient/agent_server.cpp: one job's leavings must not keep the agent for long.
const RetryPolicy delivery_retry{std::chrono::milliseconds(500), std::chrono::seconds(10),
                                 std::chrono::seconds(60)};

}  // namespace

void Facility::start_agent() {
  if (agent_) return;
  AgentSettings settings = setup_.agent;
  settings.seed = random_.next();
  agent_life_ = new_life();
  agent_exit_.reset();
  agent_ = std::make_unique<AgentMachine>(settings, stored_, agent_now());
  clock_.tell(setup_.id.str(), "agent started");
  soon({}, "agent", [this] { pump(); });
}

void Facility::kill_agent() {
  if (!agent_) return;
  clock_.tell(setup_.id.str(), "agent killed");
  clock_.cancel(waking_);
  waking_ = 0;
  delivery_.reset();
  agent_life_.reset();
  agent_.reset();
}

void Facility::soon(Duration delay, const char* what, std::function<void()> work) {
  clock_.after(delay, what, [life = std::weak_ptr<const int>(agent_life_), work = std::move(work)] {
    if (!life.expired()) work();
  });
}

void Facility::pump() {
  while (agent_) {
    const AgentMachine::Step step = agent_->step(agent_now());
    AgentFaults::Fate fate = AgentFaults::Fate::good;
    if (faults_.agent != nullptr && step != AgentMachine::Step::wait) {
      fate = faults_.agent->fate(setup_.id, step);
    }
    if (fate == AgentFaults::Fate::die_before) return kill_agent();
    if (fate == AgentFaults::Fate::die_after && step == AgentMachine::Step::submit) {
      // The cluster has the job, and nobody wrote down its number.
      (void)scheduler_.submit(
          job_request({setup_.run, setup_.id, "job.sbatch", setup_.time_limit_s, {}, {}}, names_,
                      agent_->intent()));
      return kill_agent();
    }
    if (!perform(step)) return;
  }
}

bool Facility::perform(AgentMachine::Step step) {
  switch (step) {
    case AgentMachine::Step::store:
      stored_ = agent_->state();
      agent_->stored();
      return true;
    case AgentMachine::Step::poll:
      poll();
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
    case AgentMachine::Step::cancel:
      cancel();
      return true;
    case AgentMachine::Step::ask_plan:
      ask_plan();
      return false;
    case AgentMachine::Step::settle:
      settle();
      return false;
    case AgentMachine::Step::wait:
      wait();
      return false;
    case AgentMachine::Step::over:
      agent_over();
      return false;
  }
  return false;
}

void Facility::poll() {
  const Result<std::vector<JobView>> views = scheduler_.poll();
  if (views) {
    agent_->polled(*views, scheduler_.took(), agent_now());
  } else {
    agent_->poll_failed(views.error(), agent_now());
  }
}

void Facility::look_up() {
  const Result<std::optional<JobView>> found = scheduler_.find_by_token(agent_->intent().token);
  if (found) {
    agent_->looked_up(*found, agent_now());
  } else {
    agent_->look_up_failed(found.error(), agent_now());
  }
}

void Facility::submit() {
  const AgentJobProfile profile{setup_.run, setup_.id, "job.sbatch", setup_.time_limit_s, {}, {}};
  const Result<JobHandle> handle =
      scheduler_.submit(job_request(profile, names_, agent_->intent()));
  if (handle) {
    agent_->submitted(*handle, agent_now());
  } else {
    agent_->submit_failed(handle.error(), agent_now());
  }
}

void Facility::inspect() {
  const Result<JobOutcome> outcome = scheduler_.outcome(agent_->job_at_hand().handle);
  if (outcome) {
    agent_->inspected(*outcome, agent_now());
  } else {
    agent_->inspect_failed(outcome.error(), agent_now());
  }
}

void Facility::cancel() {
  const Result<CancelReport> report = scheduler_.cancel(agent_->to_cancel());
  if (report) {
    agent_->cancel_sent(agent_now());
  } else {
    agent_->cancel_failed(report.error(), agent_now());
  }
}

void Facility::ask_plan() {
  Request request;
  request.kind = Request::Kind::plan;
  request.body = encode(agent_->plan_request());
  network_.call(setup_.id, std::move(request), agent_life_, [this](const Result<Reply>& reply) {
    Result<PlanAnswer> answer = Error{};
    if (reply) answer = decode<PlanAnswer>(reply->body);
    if (reply && answer) {
      agent_->plan_answered(*answer, agent_now());
    } else {
      agent_->plan_failed(reply ? answer.error() : reply.error(), agent_now());
    }
    pump();
  });
}

// --- an ended job

void Facility::settle() {
  delivered_ = 0;
  deliver_next(agent_->job_at_hand().token);
}

void Facility::settle_failed(const Error& error) {
  agent_->settle_failed(error, agent_now());
  soon({}, "settle failed", [this] { pump(); });
}

// Sends what the job left, one update after the other, then reports its end.
void Facility::deliver_next(const std::string& token) {
  const std::vector<OwnUpdate>& updates = left_[token];
  if (updates.empty()) return report_end();
  const OwnUpdate update = updates.front();
  const auto done_with = [this, token, id = update.id](Disposition disposition) {
    settle_update(token, id, disposition);
    soon({}, "delivered", [this, token] { deliver_next(token); });
  };
  delivery_ = std::make_unique<Sending>(clock_, network_, random_, setup_.id);
  delivery_->ask(update.id, [this, update,
                             done_with](const Result<std::optional<UpdateAnswer>>& known) {
    if (!known && may_pass(known.error().code)) return settle_failed(known.error());
    if (known && *known)  // the job sent it and could not tidy up any more
      return done_with((*known)->disposition);
    // The transfer that calls is not ended from within.
    soon({}, "deliver", [this, update, done_with] {
      delivery_ = std::make_unique<Sending>(clock_, network_, random_, setup_.id);
      delivery_->start(
          update, delivery_retry, [this, done_with](const Result<UpdateAnswer>& answer) {
            if (!answer && may_pass(answer.error().code)) {
              return settle_failed(answer.error());
            }
            const Disposition disposition = answer ? answer->disposition : Disposition::rejected;
            if (disposition != Disposition::rejected) ++delivered_;
            done_with(disposition);
          });
    });
  });
}

void Facility::report_end() {
  const TrackedJob& job = agent_->job_at_hand();
  Request request;
  request.kind = Request::Kind::end_job;
  request.attempt = make_attempt_id(job.handle.id, job.restart_count);
  request.body = encode(JobEnd{"", job.state, job.detail});
  network_.call(setup_.id, std::move(request), agent_life_, [this](const Result<Reply>& reply) {
    if (!reply && reply.error().code != Code::not_found) {
      agent_->settle_failed(reply.error(), agent_now());
    } else {
      agent_->settled(agent_now(), delivered_ > 0);
    }
    pump();
  });
}

void Facility::wait() {
  clock_.cancel(waking_);
  const Duration delay = std::max(agent_->wake_at() - agent_now(), Duration{});
  waking_ = clock_.after(std::min<Duration>(delay, std::chrono::hours(24 * 365)), "agent", [this] {
    waking_ = 0;
    pump();
  });
}

void Facility::agent_over() {
  agent_exit_ = agent_->exit_code();
  const std::string reason = agent_->reason();
  clock_.tell(setup_.id.str(), "agent over: " + reason);
  agent_life_.reset();
  agent_.reset();
  witness_.on_agent_over(setup_.id, *agent_exit_, reason);
}

}  // namespace fedqueue::simulation
