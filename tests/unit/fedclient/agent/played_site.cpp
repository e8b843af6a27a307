#include "tests/unit/fedclient/agent/played_site.h"

namespace fedqueue::test {

void Stepper::perform(AgentMachine& machine, AgentMachine::Step step) {
  switch (step) {
    case AgentMachine::Step::store:
      stored = machine.state();
      machine.stored();
      return;
    case AgentMachine::Step::poll: {
      Result<std::vector<JobView>> views = scheduler.poll();
      if (views) {
        machine.polled(*views, Duration(0), now);
      } else {
        machine.poll_failed(views.error(), now);
      }
      return;
    }
    case AgentMachine::Step::ask_plan: {
      Result<PlanAnswer> answer = server.plan(machine.plan_request());
      if (answer) {
        machine.plan_answered(*answer, now);
      } else {
        machine.plan_failed(answer.error(), now);
      }
      return;
    }
    case AgentMachine::Step::look_up: {
      Result<std::optional<JobView>> found = scheduler.find_by_token(machine.intent().token);
      if (found) {
        machine.looked_up(*found, now);
      } else {
        machine.look_up_failed(found.error(), now);
      }
      return;
    }
    case AgentMachine::Step::submit: {
      // What is submitted is what is on disk.
      FEDQUEUE_ASSERT(stored.intent && stored.intent->token == machine.intent().token);
      JobRequest request;
      request.token = machine.intent().token;
      Result<JobHandle> handle = scheduler.submit(request);
      if (handle) {
        machine.submitted(*handle, now);
      } else {
        machine.submit_failed(handle.error(), now);
      }
      return;
    }
    case AgentMachine::Step::inspect: {
      Result<JobOutcome> outcome = scheduler.outcome(machine.job_at_hand().handle);
      if (outcome) {
        machine.inspected(*outcome, now);
      } else {
        machine.inspect_failed(outcome.error(), now);
      }
      return;
    }
    case AgentMachine::Step::settle: {
      const TrackedJob job = machine.job_at_hand();
      Status told = server.end_job(make_attempt_id(job.handle.id, job.restart_count),
                                   {"", job.state, job.detail});
      if (told) {
        machine.settled(now, server.left_behind > 0);
      } else {
        machine.settle_failed(told.error(), now);
      }
      return;
    }
    case AgentMachine::Step::cancel: {
      Result<CancelReport> report = scheduler.cancel(machine.to_cancel());
      if (report) {
        machine.cancel_sent(now);
      } else {
        machine.cancel_failed(report.error(), now);
      }
      return;
    }
    case AgentMachine::Step::wait:
    case AgentMachine::Step::over:
      return;
  }
}

}  // namespace fedqueue::test
