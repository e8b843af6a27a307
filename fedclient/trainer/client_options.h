// The options with which a training job finds its run and its server.
//
//   kit's own settings < files and FEDQUEUE_* < FED_* (the job's --fed-* options) < command line
//
// Thread safety: pure functions; find_connection() reads the kit's files, chosen_dataset() the
// data.
#pragma once

#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/config/settings.h"
#include "fedclient/collective/launch.h"
#include "fedclient/data/dataset.h"
#include "fedclient/link/link.h"

namespace fedqueue {

// run, server, facility, kit, proxy.
[[nodiscard]] std::vector<OptionSpec> connection_options();

struct Connection {
  LinkConfig link;
  std::string name;                // whom the kit speaks for: the facility
  std::vector<std::string> notes;  // as that the certificate is about to expire
};

// Code::usage names the option that is missing, Code::kit and others what is wrong with the kit.
Result<Connection> find_connection(const Settings& settings, const Environment& environment,
                                   const Log& log);

// Everything before the verbs' own options that training and evaluation share: dataset, device,
// threads.
[[nodiscard]] std::vector<OptionSpec> computing_options();
// What `dataset` and `data_plugin` say.
Result<Dataset> chosen_dataset(const Settings& settings, Split split);

}  // namespace fedqueue
