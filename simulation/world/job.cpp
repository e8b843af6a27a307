#include "simulation/world/job.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace fedqueue::simulation {

SimulatedJob::SimulatedJob(JobSetup setup, Ports ports)
    : setup_(std::move(setup)), ports_(std::move(ports)), started_at_(ports_.clock.now()) {
  ports_.witness.on_process_started(setup_.facility, attempt());
  later(from_seconds(ports_.trainer.launch_s(setup_.facility)), "launched", [this] { begin(); });
}

SimulatedJob::~SimulatedJob() {
  for (const Clock::Ticket ticket : {training_end_, waking_, beating_}) ports_.clock.cancel(ticket);
  ports_.witness.on_process_ended(setup_.facility, attempt(), session());
}

void SimulatedJob::later(Duration delay, const char* what, std::function<void()> work) {
  ports_.clock.after(delay, what, [life = std::weak_ptr<const int>(life_), work = std::move(work)] {
    if (!life.expired()) work();
  });
}

void SimulatedJob::begin() {
  SessionSettings settings;
  settings.facility = setup_.facility;
  settings.registration = setup_.registration;
  settings.retry = setup_.retry;
  settings.reserve = setup_.reserve;
  const Duration launched = ports_.clock.now() - started_at_;
  if (setup_.limit_left_s) {
    settings.ends_at = started_at_ + from_seconds(*setup_.limit_left_s);
    settings.registration.queue.remaining_s =
        std::max(0.0, *setup_.limit_left_s - to_seconds(launched));
  }
  session_.emplace(std::move(settings), ports_.clock.now());
  proceed();
}

void SimulatedJob::proceed() {
  switch (session_->step()) {
    case Session::Step::enrol:
      return enrol();
    case Session::Step::fetch:
      return fetch();
    case Session::Step::train:
      return train();
    case Session::Step::upload:
      return upload();
    case Session::Step::ask:
      return ask();
    case Session::Step::wait:
      return wait();
    case Session::Step::report:
      return report();
    case Session::Step::over: {
      const auto over = ports_.over;
      return over(session_->exit_code());
    }
  }
}

void SimulatedJob::call(Request request, Network::Done done) {
  ports_.witness.on_session_sends(setup_.facility, *session_, request.kind);
  ports_.network.call(setup_.facility, std::move(request), life_, std::move(done));
}

void SimulatedJob::failed(const Error& error) {
  session_->failed(error, ports_.clock.now(), ports_.random.uniform());
}

void SimulatedJob::enrol() {
  Request request;
  request.kind = Request::Kind::enrol;
  request.body = encode(session_->settings().registration);
  call(std::move(request), [this](const Result<Reply>& reply) {
    Result<JobAnswer> answer = Error{};
    if (reply) answer = decode<JobAnswer>(reply->body);
    if (!reply) {
      failed(reply.error());
    } else if (!answer) {
      failed(answer.error());
    } else {
      session_->enrolled(std::move(*answer), ports_.clock.now());
      plan_heartbeat();
    }
    proceed();
  });
}

void SimulatedJob::fetch() {
  ports_.witness.on_session_sends(setup_.facility, *session_, Request::Kind::model);
  fetching_ =
      std::make_unique<Fetching>(ports_.clock, ports_.network, ports_.random, setup_.facility);
  fetching_->start(session_->segment().base, setup_.retry, [this](Result<SharedBytes> model) {
    if (model) {
      model_ = std::move(*model);
      session_->fetched(ports_.clock.now());
    } else {
      failed(model.error());
    }
    // The transfer that calls is not ended from within.
    later({}, "fetched", [this] { proceed(); });
  });
}

void SimulatedJob::train() {
  const Instant now = ports_.clock.now();
  if (!overhead_s_) overhead_s_ = to_seconds(now - started_at_);
  const Segment& segment = session_->segment();
  step_s_ = ports_.trainer.step_s(setup_.facility, segment);
  std::int64_t steps = segment.local_steps;
  if (const std::optional<Instant> until = session_->train_until()) {
    const double left_s = std::max(0.0, to_seconds(*until - now));
    steps = std::min(steps, static_cast<std::int64_t>(left_s / step_s_) + 1);
  }
  training_ = true;
  training_since_ = now;
  training_end_ = ports_.clock.after(from_seconds(static_cast<double>(steps) * step_s_), "trained",
                                     [this, steps] { end_training(steps); });
  if (session_->finishing()) cut_training();
}

void SimulatedJob::cut_training() {
  if (!training_) return;
  ports_.clock.cancel(training_end_);
  const double spent_s = to_seconds(ports_.clock.now() - training_since_);
  const auto steps =
      std::min(session_->segment().local_steps, static_cast<std::int64_t>(spent_s / step_s_) + 1);
  const Instant end = training_since_ + from_seconds(static_cast<double>(steps) * step_s_);
  training_end_ = ports_.clock.schedule(end, "trained", [this, steps] { end_training(steps); });
}

void SimulatedJob::end_training(std::int64_t steps) {
  training_ = false;
  if (session_->abandoned()) return proceed();
  const LocalTask task{setup_.facility, attempt(), session_->segment(),
                       steps,           model_,    session_->job().training,
                       training_since_, step_s_};
  Result<LocalOutcome> outcome = ports_.trainer.train(task);
  if (!outcome) {
    failed(outcome.error());
    return proceed();
  }
  UpdateMetadata metadata;
  metadata.steps_run = steps;
  metadata.seconds_per_step = step_s_;
  metadata.train_seconds = static_cast<double>(steps) * step_s_;
  metadata.overhead_s = *overhead_s_;
  metadata.loss = outcome->loss;
  metadata.samples = outcome->samples;
  steps_done_ += steps;
  const UpdateId id = session_->update_id();
  session_->trained(metadata, ports_.clock.now());
  if (session_->step() == Session::Step::upload) {
    update_ = {id, std::make_shared<const Bytes>(std::move(outcome->update)), session_->metadata(),
               session_->token(), ""};
    ports_.trainer.tempt(setup_.facility, update_);
    ports_.keep(update_);
  }
  proceed();
}

void SimulatedJob::upload() {
  ports_.witness.on_session_sends(setup_.facility, *session_, Request::Kind::put);
  sending_ =
      std::make_unique<Sending>(ports_.clock, ports_.network, ports_.random, setup_.facility);
  sending_->start(
      update_, session_->upload_retry(ports_.clock.now()), [this](Result<UpdateAnswer> answer) {
        if (answer) {
          ports_.clock.tell(setup_.facility.str(), "update " + update_.id.str() + " is " +
                                                       to_text(answer->disposition) + ", then " +
                                                       to_text(answer->next.kind));
          ports_.settle(update_.id, answer->disposition);
          session_->uploaded(*answer, ports_.clock.now());
        } else {
          ports_.clock.tell(setup_.facility.str(),
                            "update " + update_.id.str() + " failed: " + answer.error().message);
          failed(answer.error());
        }
        later({}, "uploaded", [this] { proceed(); });
      });
}

void SimulatedJob::ask() {
  Request request;
  request.kind = Request::Kind::answer;
  request.update = session_->update_id();
  call(std::move(request), [this](const Result<Reply>& reply) {
    Result<UpdateAnswer> answer = Error{};
    if (reply) answer = decode<UpdateAnswer>(reply->body);
    if (reply && answer) {
      session_->asked(*answer, ports_.clock.now());
    } else {
      failed(reply ? answer.error() : reply.error());
    }
    proceed();
  });
}

void SimulatedJob::wait() {
  waking_ = ports_.clock.schedule(session_->wake_at(), "wait over", [this] {
    waking_ = 0;
    session_->waited(ports_.clock.now());
    proceed();
  });
}

void SimulatedJob::report() {
  Request request;
  request.kind = Request::Kind::end_job;
  request.attempt = attempt();
  request.body = encode(session_->end());
  call(std::move(request), [this](const Result<Reply>&) {
    session_->reported();
    proceed();
  });
}

// --- beside the steps

void SimulatedJob::plan_heartbeat() {
  ports_.clock.cancel(beating_);
  beating_ = 0;
  if (const std::optional<Instant> due = session_->heartbeat_due()) {
    beating_ = ports_.clock.schedule(*due, "heartbeat", [this] { beat(); });
  }
}

void SimulatedJob::beat() {
  beating_ = 0;
  std::int64_t steps = steps_done_;
  if (training_) {
    steps += static_cast<std::int64_t>(to_seconds(ports_.clock.now() - training_since_) / step_s_);
  }
  const Heartbeat heartbeat = session_->heartbeat(steps);
  Request request;
  request.kind = Request::Kind::heartbeat;
  request.attempt = attempt();
  request.body = encode(heartbeat);
  call(std::move(request), [this, token = heartbeat.token](const Result<Reply>& reply) {
    if (token != session_->token()) return;  // registered again meanwhile
    const Session::Step before = session_->step();
    Result<HeartbeatAnswer> answer = Error{};
    if (reply) answer = decode<HeartbeatAnswer>(reply->body);
    if (reply && answer && answer->state == HeartbeatAnswer::State::fenced) {
      ports_.witness.on_session_fenced(setup_.facility, *session_);
    }
    if (reply && answer) {
      session_->heartbeat_answered(*answer, ports_.clock.now());
    } else {
      session_->heartbeat_failed(reply ? answer.error() : reply.error(), ports_.clock.now());
    }
    plan_heartbeat();
    if (!session_->finishing()) return;
    cut_training();
    if (before == Session::Step::wait && session_->step() != before) {
      ports_.clock.cancel(waking_);
      waking_ = 0;
      proceed();
    }
  });
}

void SimulatedJob::interrupt(const std::string& reason) {
  if (!session_ || session_->finishing()) return;
  const Session::Step before = session_->step();
  session_->interrupt(reason, ports_.clock.now());
  cut_training();
  if (before != Session::Step::wait || session_->step() == before) return;
  ports_.clock.cancel(waking_);
  waking_ = 0;
  proceed();
}

}  // namespace fedqueue::simulation
