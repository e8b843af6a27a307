#include "simulation/world/sending.h"

#include <utility>

#include "core/base/digest.h"

namespace fedqueue::simulation {
namespace {

Result<UpdateAnswer> read_answer(const Result<Reply>& reply) {
  if (!reply) return reply.error();
  Result<UpdateAnswer> answer = decode<UpdateAnswer>(reply->body);
  if (!answer) return Error{Code::network, answer.error().message, ""};
  return answer;
}

}  // namespace

void Sending::start(OwnUpdate update, const RetryPolicy& retry, Done done) {
  update_ = std::move(update);
  if (update_.digest.empty()) update_.digest = xxh128_hex(*update_.content);
  machine_.emplace(update_.content->size(), retry);
  done_ = std::move(done);
  since_ = clock_.now();
  proceed();
}

void Sending::proceed() {
  switch (machine_->step()) {
    case UploadMachine::Step::probe:
      return probe();
    case UploadMachine::Step::send:
      return put();
    case UploadMachine::Step::wait:
      clock_.after(machine_->delay(), "retry", [this, life = std::weak_ptr<const int>(life_)] {
        if (life.expired()) return;
        machine_->waited();
        proceed();
      });
      return;
    case UploadMachine::Step::done: {
      const Done done = std::move(done_);
      return done(machine_->answer());
    }
    case UploadMachine::Step::failed: {
      const Done done = std::move(done_);
      return done(machine_->error());
    }
  }
}

void Sending::failed(const Error& error) {
  machine_->failed(error, clock_.now() - since_, random_.uniform());
  since_ = clock_.now();
  proceed();
}

void Sending::probe() {
  Request request;
  request.kind = Request::Kind::probe;
  request.update = update_.id;
  network_.call(facility_, std::move(request), life_, [this](const Result<Reply>& reply) {
    if (!reply && reply.error().code == Code::not_found) {
      machine_->offset_known(0);
    } else if (!reply) {
      return failed(reply.error());
    } else if (reply->stored) {
      return fetch_answer();
    } else {
      machine_->offset_known(reply->offset.value_or(0));
    }
    proceed();
  });
}

void Sending::fetch_answer() {
  Request request;
  request.kind = Request::Kind::answer;
  request.update = update_.id;
  network_.call(facility_, std::move(request), life_, [this](const Result<Reply>& reply) {
    Result<UpdateAnswer> answer = read_answer(reply);
    if (!answer) return failed(answer.error());
    machine_->answered(std::move(*answer));
    proceed();
  });
}

void Sending::put() {
  Request request;
  request.kind = Request::Kind::put;
  request.update = update_.id;
  request.metadata = encode(update_.metadata);
  request.token = update_.token;
  request.digest = update_.digest;
  request.content = update_.content;
  request.from = machine_->offset();
  network_.call(facility_, std::move(request), life_, [this](const Result<Reply>& reply) {
    Result<UpdateAnswer> answer = read_answer(reply);
    if (!answer) return failed(answer.error());
    machine_->answered(std::move(*answer));
    proceed();
  });
}

void Sending::ask(const UpdateId& id,
                  std::function<void(Result<std::optional<UpdateAnswer>>)> done) {
  Request request;
  request.kind = Request::Kind::answer;
  request.update = id;
  network_.call(facility_, std::move(request), life_,
                [done = std::move(done)](const Result<Reply>& reply) {
                  if (!reply && reply.error().code == Code::not_found) {
                    return done(std::optional<UpdateAnswer>());
                  }
                  Result<UpdateAnswer> answer = read_answer(reply);
                  if (!answer) return done(answer.error());
                  done(std::optional<UpdateAnswer>(std::move(*answer)));
                });
}

void Fetching::start(Version version, const RetryPolicy& retry, Done done) {
  version_ = version;
  retry_ = retry;
  done_ = std::move(done);
  since_ = clock_.now();
  proceed();
}

void Fetching::proceed() {
  Request request;
  request.kind = Request::Kind::model;
  request.version = version_;
  request.from = part_.size();
  request.etag = etag_;
  network_.call(facility_, std::move(request), life_, [this](const Result<Reply>& reply) {
    if (reply) {
      take(*reply);
    } else {
      failed(reply.error());
    }
  });
}

void Fetching::take(const Reply& reply) {
  if (reply.from == 0) part_.clear();
  etag_ = reply.etag;
  const std::uint64_t end =
      std::min<std::uint64_t>(reply.cut_at.value_or(reply.content->size()), reply.content->size());
  part_.insert(part_.end(), reply.content->begin() + static_cast<std::ptrdiff_t>(part_.size()),
               reply.content->begin() + static_cast<std::ptrdiff_t>(end));
  if (part_.size() < reply.content->size()) {
    return failed({Code::network, "the model ended before its announced length", ""});
  }
  if (sha256_hex(part_) != etag_) {
    part_.clear();
    return failed({Code::network, "the model has another checksum than announced", ""});
  }
  const Done done = std::move(done_);
  done(std::make_shared<const Bytes>(std::move(part_)));
}

void Fetching::failed(const Error& error) {
  ++failures_;
  const Duration delay = backoff(retry_, failures_, random_.uniform());
  if (!may_pass(error.code) || clock_.now() + delay - since_ > retry_.give_up_after) {
    const Done done = std::move(done_);
    return done(error);
  }
  clock_.after(delay, "retry", [this, life = std::weak_ptr<const int>(life_)] {
    if (!life.expired()) proceed();
  });
}

}  // namespace fedqueue::simulation
