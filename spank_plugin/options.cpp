#include "spank_plugin/options.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace fedqueue::plugin {
namespace {

constexpr std::size_t longest_name = 63;
constexpr std::size_t longest_host = 253;
constexpr std::size_t longest_path = 4095;
constexpr std::size_t longest_shown = 80;
constexpr long longest_poll_s = 86400;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_name &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

// A decimal number within bounds, or -1.
long number(std::string_view text, long largest) {
  if (text.empty() || text.size() > 9 || !std::all_of(text.begin(), text.end(), is_digit))
    return -1;
  long value = 0;
  for (char digit : text) value = value * 10 + (digit - '0');
  return value <= largest ? value : -1;
}

std::string about(OptionId id, std::string_view value) {
  return "--" + std::string(text_of(id).name) + ": '" + printable(value) + "' ";
}

Problem check_name(OptionId id, std::string_view value) {
  if (is_name(value)) return std::nullopt;
  return about(id, value) + "is not a name made of 1 to 63 of the characters a-z, 0-9 and '-'; " +
         (id == OptionId::run ? "give the run's name as the server's operator chose it."
                              : "give the facility's name as it stands in its certificate.");
}

bool is_host(std::string_view host) {
  if (host.empty() || host.size() > longest_host) return false;
  if (host.front() == '[') {
    return host.size() > 4 && host.back() == ']' &&
           std::all_of(host.begin() + 1, host.end() - 1, [](char c) {
             return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' ||
                    c == '.';
           });
  }
  return host.front() != '.' && host.front() != '-' &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return is_digit(c) || is_lower(c) || is_upper(c) || c == '-' || c == '.';
         });
}

Problem check_server(std::string_view value) {
  constexpr std::string_view scheme = "https://";
  const std::string cure = "; write it as https://host or https://host:port.";
  if (value.substr(0, scheme.size()) != scheme) {
    return about(OptionId::server, value) + "does not begin with https://" + cure;
  }
  std::string_view host = value.substr(scheme.size());
  const std::size_t bracket = host.find(']');
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    if (number(host.substr(colon + 1), 65535) < 1) {
      return about(OptionId::server, value) + "has no port between 1 and 65535 after the colon" +
             cure;
    }
    host = host.substr(0, colon);
  }
  if (is_host(host)) return std::nullopt;
  return about(OptionId::server, value) + "has no valid host name (and may have nothing else)" +
         cure;
}

Problem check_path(OptionId id, std::string_view value) {
  if (value.size() > longest_path) {
    return about(id, value) + "is longer than 4095 bytes; give a shorter path.";
  }
  if (std::any_of(value.begin(), value.end(), is_control)) {
    return about(id, value) + "holds a control character; give the path without it.";
  }
  return std::nullopt;
}

std::string expand_home(const std::string& path) {
  const char* home = getenv("HOME");
  if (path.compare(0, 2, "~/") != 0 || home == nullptr || home[0] == '\0') return path;
  return home + path.substr(1);
}

Problem resolve(Options& options, OptionId id, bool directory) {
  if (!options.has(id)) return std::nullopt;
  const std::string& given = options.at(id);
  const char* wanted = directory ? "directory" : "file";
  const std::unique_ptr<char, decltype(&free)> path(realpath(expand_home(given).c_str(), nullptr),
                                                    &free);
  struct stat info = {};
  if (!path || stat(path.get(), &info) != 0) {
    return about(id, given) + "cannot be used: " + strerror(errno) +
           "; give the path of an existing " + wanted + ".";
  }
  if (directory ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode)) {
    return about(id, given) + "is not a " + wanted + "; give the path of an existing " + wanted +
           ".";
  }
  if (access(path.get(), directory ? R_OK | X_OK : R_OK) != 0) {
    return about(id, given) + "cannot be read: " + strerror(errno) +
           "; give yourself access to this " + wanted + ".";
  }
  options.set(id, path.get());
  return std::nullopt;
}

void apply_argument(SiteSettings& settings, std::string_view key, std::string_view value,
                    std::string_view whole) {
  const auto complain = [&](const char* why) {
    settings.complaints.push_back("plugstack.conf: '" + printable(whole) + "' " + why);
  };
  if (key == "record") {
    if (value != "yes" && value != "no")
      return complain("is ignored: say record=yes or record=no.");
    settings.record = value == "yes";
  } else if (key == "facility") {
    if (!is_name(value)) return complain("is ignored: a facility is 1 to 63 of a-z, 0-9 and '-'.");
    settings.facility = value;
  } else if (key == "server") {
    if (check_server(value)) return complain("is ignored: say server=https://host[:port].");
    settings.server = value;
  } else if (key == "min_poll_s") {
    if (number(value, longest_poll_s) < 0) {
      return complain("is ignored: say a number of seconds from 0 to 86400.");
    }
    settings.min_poll_s = value;
  } else {
    complain("is ignored: known are record=, facility=, server= and min_poll_s=.");
  }
}

}  // namespace

const std::array<OptionText, option_count> option_texts = {{
    {OptionId::run, "fed-run", "NAME",
     "[fedqueue] take part in the federated run NAME; turns the other --fed-* on", "FEDQUEUE_RUN",
     "FED_RUN", "FED_RUN"},
    {OptionId::server, "fed-server", "URL", "[fedqueue] server of the run, as https://host[:port]",
     "FEDQUEUE_SERVER", "FED_SERVER", "FED_SERVER"},
    {OptionId::facility, "fed-facility", "NAME",
     "[fedqueue] name of this facility, as in its certificate", "FEDQUEUE_FACILITY", "FED_FACILITY",
     "FED_FACILITY"},
    {OptionId::kit, "fed-kit", "DIR", "[fedqueue] directory with the facility's certificates",
     "FEDQUEUE_KIT", "FED_KIT", "FED_KIT"},
    {OptionId::config, "fed-config", "FILE", "[fedqueue] configuration file of the training",
     "FEDQUEUE_CONFIG", "FED_CONFIG", "FED_CONFIG"},
}};

const OptionText& text_of(OptionId id) { return option_texts[static_cast<std::size_t>(id)]; }

bool Options::any() const {
  return std::any_of(values_.begin(), values_.end(),
                     [](const auto& value) { return !value.empty(); });
}

SiteSettings parse_site_settings(int count, const char* const* arguments) {
  SiteSettings settings;
  for (int i = 0; i < count; ++i) {
    if (arguments == nullptr || arguments[i] == nullptr) continue;
    const std::string_view whole = arguments[i];
    const std::size_t equals = std::min(whole.find('='), whole.size());
    const std::size_t value = std::min(equals + 1, whole.size());
    apply_argument(settings, whole.substr(0, equals), whole.substr(value), whole);
  }
  return settings;
}

Problem check_text(OptionId id, std::string_view value) {
  if (value.empty()) {
    return about(id, value) + "is empty; give a value or leave the option out.";
  }
  switch (id) {
    case OptionId::run:
    case OptionId::facility:
      return check_name(id, value);
    case OptionId::server:
      return check_server(value);
    case OptionId::kit:
    case OptionId::config:
      return check_path(id, value);
  }
  return std::nullopt;
}

Problem check_texts(const Options& options) {
  for (const OptionText& text : option_texts) {
    const std::string& value = options.at(text.id);
    if (value.empty()) continue;
    if (!options.has(OptionId::run)) {
      return about(text.id, value) +
             "was given without a run, so it has no effect; add --fed-run=NAME or leave it out.";
    }
    if (Problem problem = check_text(text.id, value)) return problem;
  }
  return std::nullopt;
}

Problem resolve_paths(Options& options) {
  if (Problem problem = resolve(options, OptionId::kit, true)) return problem;
  return resolve(options, OptionId::config, false);
}

std::string printable(std::string_view value) {
  std::string shown(value.substr(0, longest_shown));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  if (value.size() > longest_shown) shown += "...";
  return shown;
}

}  // namespace fedqueue::plugin
