#include "fedserver/desk/upload_steps.h"

#include <utility>

#include "core/base/assert.h"
#include "core/base/points.h"

namespace fedqueue {
namespace {

// Whether the screening failed for a reason of this machine, and not of the update.
bool is_fault_of_server(Code code) {
  return code == Code::storage || code == Code::storage_full || code == Code::try_again ||
         code == Code::internal;
}

}  // namespace

Status check_owner(const FacilityId& facility, const std::string& update) {
  const Result<UpdateParts> parts = parse_update_id(update);
  if (!parts) return parts.error();
  if (parts->facility == facility || FEDQUEUE_PLANTED(owner_not_checked)) return {};
  FEDQUEUE_MARK(update_of_other_facility);
  return Error{Code::identity,
               "update '" + update + "' belongs to facility '" + parts->facility.str() +
                   "', and this certificate to '" + facility.str() + "'",
               "Use the kit of the facility that trained the update."};
}

UploadSteps::UploadSteps(FacilityId facility, UploadOffer offer)
    : facility_(std::move(facility)), offer_(std::move(offer)) {}

Event UploadSteps::question() const {
  if (step_ == Step::ask) {
    return UploadOffered{facility_, offer_.id, offer_.metadata, offer_.token, offer_.total};
  }
  FEDQUEUE_ASSERT(step_ == Step::decide);
  if (unsound_) {
    return UpdateRefused{facility_, offer_.id, offer_.metadata, offer_.token, *unsound_};
  }
  return UpdateStored{facility_,    offer_.id, offer_.metadata, offer_.token, offer_.digest,
                      offer_.total, norm_};
}

void UploadSteps::refuse(const Error& error, bool with_offset) {
  ending_.kind = Ending::Kind::refuse;
  ending_.error = error;
  ending_.with_offset = with_offset;
  step_ = Step::reply;
}

void UploadSteps::answered(const std::optional<Answer>& answer) {
  FEDQUEUE_ASSERT(step_ == Step::ask || step_ == Step::decide);
  if (step_ == Step::ask && answer && std::holds_alternative<Accepted>(*answer)) {
    step_ = placed_ ? Step::begin : Step::take;
    return;
  }
  const bool decided = step_ == Step::decide;
  ending_.kind = Ending::Kind::answer;
  ending_.answer = answer;
  ending_.status = decided ? 201 : 200;
  step_ = Step::reply;
  if (!decided || !answer) return;
  if (const Error* error = std::get_if<Error>(&*answer)) {
    may_come_again_ = error->code == Code::try_again;
    step_ = Step::put_aside;
  }
}

void UploadSteps::taken(bool waited) {
  FEDQUEUE_ASSERT(step_ == Step::take);
  placed_ = true;
  step_ = waited ? Step::ask : Step::begin;
}

void UploadSteps::not_taken() {
  FEDQUEUE_ASSERT(step_ == Step::take);
  ending_.kind = Ending::Kind::answer;
  step_ = Step::reply;
}

void UploadSteps::begun(const Status& begun) {
  FEDQUEUE_ASSERT(step_ == Step::begin);
  if (!begun) return refuse(begun.error(), true);
  step_ = Step::receive;
}

void UploadSteps::received(std::uint64_t offset, bool cut, const std::optional<Error>& failed) {
  FEDQUEUE_ASSERT(step_ == Step::receive);
  cut_ = cut;
  failed_ = failed;
  whole_ = !cut && !failed && offset == offer_.total;
  step_ = Step::settle;
}

void UploadSteps::settled(const Status& settled) {
  FEDQUEUE_ASSERT(step_ == Step::settle);
  if (!settled && !failed_) failed_ = settled.error();
  if (failed_) return refuse(*failed_, true);
  if (whole_) {
    step_ = Step::screen;
    return;
  }
  step_ = Step::reply;
  if (cut_) return;
  ending_.kind = Ending::Kind::more;
  ending_.status = 202;
  ending_.offset = offer_.first + offer_.count;
}

void UploadSteps::screened(const Result<double>& screened) {
  FEDQUEUE_ASSERT(step_ == Step::screen);
  if (screened) {
    norm_ = *screened;
    step_ = Step::decide;
    return;
  }
  if (!is_fault_of_server(screened.error().code)) {
    unsound_ = screened.error();
    step_ = Step::decide;
    return;
  }
  refuse({Code::try_again, screened.error().message, screened.error().cure}, false);
  may_come_again_ = true;
  step_ = Step::put_aside;
}

void UploadSteps::put_aside_done() {
  FEDQUEUE_ASSERT(step_ == Step::put_aside);
  step_ = Step::reply;
}

}  // namespace fedqueue
