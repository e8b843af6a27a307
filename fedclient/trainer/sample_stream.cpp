#include "fedclient/trainer/sample_stream.h"

#include <algorithm>
#include <utility>

namespace fedqueue {

void SampleStream::use(const TrainingSettings& settings, std::int64_t batch) {
  const bool anew = !loader_ || settings.seed != settings_.seed;
  settings_ = settings;
  batch_ = batch;
  if (anew) order_seed_ = settings.seed;
  load(anew ? BatchPosition() : loader_->position());
}

void SampleStream::change_batch(std::int64_t batch) {
  if (batch == batch_) return;
  batch_ = batch;
  load(loader_->position());
}

DataPlace SampleStream::place() const {
  return {order_seed_, loader_->position(), dataset_.samples(), losses_.means(), drawn_by_};
}

void SampleStream::go_to(DataPlace place) {
  if (place.samples != dataset_.samples()) return;
  order_seed_ = place.order_seed;
  losses_ = LossMemory(std::move(place.losses));
  drawn_by_ = std::move(place.drawn_by);
  load(place.position);
}

// What an earlier loader had prepared is dropped.
void SampleStream::load(BatchPosition position) {
  if (loader_) waited_ += loader_->wait_seconds();
  loader_.reset();
  BatchSampler order = sampler();
  order.seek(position);
  const LoaderOptions options{collective_.rank(), collective_.size(), loader_threads_, order_seed_,
                              settings_.augmentation};
  loader_ = std::make_unique<BatchLoader>(dataset_, std::move(order), options);
}

BatchSampler SampleStream::sampler() const {
  if (settings_.sampling == Sampling::balanced)
    return BatchSampler::balanced(dataset_.labels, batch_, order_seed_);
  if (by_losses() && !drawn_by_.empty()) {
    return BatchSampler::weighted(LossMemory(drawn_by_).probabilities(settings_.sampling_floor),
                                  batch_, order_seed_);
  }
  return {dataset_.samples(), batch_, order_seed_};
}

void SampleStream::begin_epoch_by_losses() {
  if (losses_.samples() != dataset_.samples()) losses_ = LossMemory(dataset_.samples());
  const BatchPosition at = loader_->position();
  if (at.offset + batch_ <= dataset_.samples()) return;
  drawn_by_ = losses_.means();
  load({at.epoch + 1, 0});
}

Result<Batch> SampleStream::next() {
  if (by_losses()) begin_epoch_by_losses();
  return loader_->next();
}

Status SampleStream::remember(std::span<const float> own_losses) {
  std::vector<float> all(static_cast<std::size_t>(batch_));
  const std::int64_t begin = batch_ * collective_.rank() / collective_.size();
  std::copy(own_losses.begin(), own_losses.end(), all.begin() + begin);
  if (Status status = collective_.all_reduce_sum(all.data(), all.size()); !status) return status;
  losses_.add(loader_->samples(), all, settings_.sampling_memory);
  return {};
}

double SampleStream::wait_seconds() const {
  return waited_ + (loader_ ? loader_->wait_seconds() : 0);
}

}  // namespace fedqueue
