#include "fedserver/telemetry/public_fact.h"

#include <nlohmann/json.hpp>

namespace fedqueue {
namespace {

using nlohmann::json;

void remove_secrets(json& value) {
  if (value.is_object()) {
    value.erase("token");
    value.erase("nonce");
  }
  if (value.is_structured()) {
    for (json& part : value) remove_secrets(part);
  }
}

}  // namespace

std::string public_fact(const JournalRow& row) {
  json document = json::parse(row.text, nullptr, false);
  if (!document.is_object()) return "{}";
  remove_secrets(document);
  document["uptime_s"] = to_seconds(row.at.time_since_epoch());
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace fedqueue
