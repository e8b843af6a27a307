#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "fedclient/collective/launch.h"
#include "fedclient/link/link.h"
#include "fedclient/session/snapshot.h"
#include "fedclient/trainer/client_options.h"
#include "fedclient/trainer/commands.h"
#include "fedclient/trainer/job.h"
#include "fedclient/trainer/stop_signals.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {
namespace {

std::vector<OptionSpec> process_options() {
  return {{.name = "deterministic",
           .kind = Kind::flag,
           .built_in = "false",
           .help = "Refuse operations whose result may vary."},
          {.name = "loader_threads",
           .kind = Kind::integer,
           .built_in = "1",
           .help = "Threads per rank that prepare the next batches; 0: each step prepares its own.",
           .minimum = 0,
           .maximum = 256},
          {.name = "bucket",
           .kind = Kind::integer,
           .built_in = "0",
           .help = "KiB of gradients that are summed over the ranks together, while the backward "
                   "pass goes on; 0: 1024, on a GPU 25600.",
           .minimum = 0,
           .maximum = 1 << 30},
          {.name = "watchdog",
           .kind = Kind::seconds,
           .built_in = "180",
           .help = "End the job when a rank stands still for so long; 0 never.",
           .minimum = 0},
          {.name = "snapshot",
           .kind = Kind::seconds,
           .built_in = "60",
           .help = "Keep the unfinished update on disk at this interval; 0 never.",
           .minimum = 0},
          {.name = "progress",
           .kind = Kind::seconds,
           .built_in = "10",
           .help = "Between two progress lines.",
           .minimum = 0}};
}

Result<TrainerOptions> trainer_options(const Settings& settings,
                                       const CollectiveOptions& collective) {
  TrainerOptions options;
  std::map<std::string, std::string> said;
  for (const OptionSpec& option : training_options())
    if (settings.has(option.name)) said[option.name] = settings.text_of(option.name);
  Result<TrainingSettings> training = training_settings(said);
  if (!training) return training.error();
  options.training = *training;
  options.device = settings.text("device");
  options.gpu_ordinal = collective.gpu_ordinal;
  options.threads = static_cast<int>(settings.integer("threads"));
  options.loader_threads = static_cast<int>(settings.integer("loader_threads"));
  options.deterministic = settings.flag("deterministic");
  options.bucket_bytes = settings.integer("bucket") * 1024;
  options.model_file = settings.path("model_file");
  options.watchdog_s = settings.real("watchdog");
  options.snapshot_s = settings.real("snapshot");
  options.progress_s = settings.real("progress");
  return options;
}

// One process of a training job: its peers, its data, its replica.
struct Rank {
  Log log;
  std::unique_ptr<Collective> collective;
  std::unique_ptr<Trainer> trainer;
  TrainingSettings training;  // the facility's own

  [[nodiscard]] bool leads() const { return collective->rank() == 0; }
};

// A rank that cannot start must not leave the others waiting: all learn of it and leave.
Result<Rank> start_rank(const Settings& settings) {
  watch_stop_signals();
  CollectiveOptions collective_options;
  collective_options.gpu = settings.text("device") == "cuda";
  Result<std::unique_ptr<Collective>> collective = launch(collective_options);
  if (!collective) return collective.error();
  Rank rank;
  rank.collective = std::move(*collective);
  LogOptions log_options;
  // The other ranks would say the same once more.
  if (!rank.leads()) log_options.threshold = LogLevel::warning;
  Result<Log> log = Log::create(log_options, "trainer", {{"rank", rank.collective->rank()}});
  if (!log) return log.error();
  rank.log = *log;

  Result<TrainerOptions> options = trainer_options(settings, collective_options);
  if (!options) return options.error();
  Result<Dataset> dataset = chosen_dataset(settings, Split::train);
  const Result<std::int64_t> all = rank.collective->minimum(dataset ? 1 : 0);
  if (!dataset) return within("rank " + std::to_string(rank.collective->rank()), dataset.error());
  if (!all) return all.error();
  if (*all == 0) return Error{Code::data, "start training: another rank has no dataset", ""};
  Result<std::unique_ptr<Trainer>> trainer =
      Trainer::create(*options, *rank.collective, std::move(*dataset), rank.log);
  if (!trainer) return trainer.error();
  rank.trainer = std::move(*trainer);
  rank.training = options->training;
  return rank;
}

// What ranks other than 0 do until the end; a failure there ends the job.
int follow(Rank& rank) {
  const Status followed = rank.trainer->follow();
  if (followed) return 0;
  rank.log.error(followed.error());
  rank.collective->abort(exit_code(followed.error()));
  return exit_code(followed.error());
}

// Rank 0 failed before the job's own loop took over.
Result<int> leave(Rank& rank, const Error& error) {
  if (!rank.trainer->usable()) {
    rank.log.error(error);
    rank.collective->abort(exit_code(error));
  }
  if (Status released = rank.trainer->finish(); !released) rank.log.error(released.error());
  return error;
}

void print_local(const Settings& settings, const Rank& rank, const SegmentResult& result) {
  if (settings.text("format") == "json") {
    nlohmann::ordered_json report = {{"ranks", rank.collective->size()},
                                     {"steps", result.steps_run},
                                     {"loss", result.loss_mean},
                                     {"learning_rate", result.learning_rate},
                                     {"samples", result.samples},
                                     {"seconds_per_step", result.seconds_per_step},
                                     {"data_wait_seconds", result.data_wait_seconds},
                                     {"reduce_seconds", result.reduce_seconds},
                                     {"reduce_exposed_seconds", result.reduce_exposed_seconds},
                                     {"train_seconds", result.train_seconds},
                                     {"stopped_early", result.stopped_early}};
    if (result.noise_scale) report["noise_scale"] = *result.noise_scale;
    std::cout << report.dump() << "\n";
    return;
  }
  std::cout << result.steps_run << " steps on " << rank.collective->size() << " rank(s), mean loss "
            << result.loss_mean << ", " << result.seconds_per_step * 1e3 << " ms per step\n";
}

Result<int> train_local(const Settings& settings) {
  Result<Rank> started = start_rank(settings);
  if (!started) return started.error();
  Rank& rank = *started;
  if (!rank.leads()) return follow(rank);
  SegmentOrder order;
  order.local_steps = settings.integer("steps");
  order.learning_rate = settings.real("learning_rate");
  if (Status loaded = rank.trainer->load(settings.path("initial")); !loaded)
    return leave(rank, loaded.error());
  std::error_code failed;
  if (settings.has("state") && std::filesystem::exists(settings.path("state"), failed)) {
    if (Status resumed = rank.trainer->resume(settings.path("state")); !resumed)
      return leave(rank, resumed.error());
  }
  Result<SegmentResult> result =
      rank.trainer->run(order, [](std::int64_t) { return !stop_signal_seen().empty(); });
  if (!result) return leave(rank, result.error());
  Status written;
  if (settings.has("state") && result->steps_run > 0)
    written = rank.trainer->keep(settings.path("state"));
  if (written && settings.has("update") && result->steps_run > 0) {
    written = rank.trainer->write_update(settings.path("update"));
  }
  if (written && settings.has("output") && result->steps_run > 0) {
    written = rank.trainer->write_model(settings.path("output"));
  }
  if (!written) return leave(rank, written.error());
  print_local(settings, rank, *result);
  if (Status released = rank.trainer->finish(); !released) return released.error();
  return 0;
}

nlohmann::ordered_json to_json(const RateSearch& search) {
  nlohmann::ordered_json report = {{"learning_rate", search.learning_rate},
                                   {"median_length", search.median_length},
                                   {"momentum", search.momentum},
                                   {"gradients", search.gradients},
                                   {"searches", nlohmann::ordered_json::array()}};
  for (const RateSearch::Search& one : search.searches) {
    nlohmann::ordered_json looks = nlohmann::ordered_json::array();
    for (const LineSearchLook& look : one.found.looks) looks.push_back({look.length, look.slope});
    report["searches"].push_back({{"slope_at_zero", one.slope_at_zero},
                                  {"length", one.found.length},
                                  {"bounded", one.found.bounded},
                                  {"looks", looks}});
  }
  return report;
}

void print(const RateSearch& search) {
  for (std::size_t i = 0; i < search.searches.size(); ++i) {
    const RateSearch::Search& one = search.searches[i];
    std::cout << "search " << i + 1 << ": slope " << one.slope_at_zero << " at 0";
    for (const LineSearchLook& look : one.found.looks)
      std::cout << ", " << look.slope << " at " << look.length;
    std::cout << (one.found.bounded ? "; ended at the limit " : "; took ") << one.found.length
              << "\n";
  }
  std::cout << "learning rate " << search.learning_rate << ": the median of "
            << search.searches.size() << " lengths is " << search.median_length;
  if (search.momentum != 0) std::cout << ", times 1 - " << search.momentum << " for the momentum";
  std::cout << " (" << search.gradients << " gradients)\n";
}

Result<int> find_rate(const Settings& settings) {
  Result<Rank> started = start_rank(settings);
  if (!started) return started.error();
  Rank& rank = *started;
  if (!rank.leads()) return follow(rank);
  if (Status loaded = rank.trainer->load(settings.path("initial")); !loaded)
    return leave(rank, loaded.error());
  const Result<RateSearch> search =
      rank.trainer->find_rate(settings.integer("searches"), settings.real("start"));
  if (!search) return leave(rank, search.error());
  if (settings.text("format") == "json") {
    std::cout << to_json(*search).dump() << "\n";
  } else {
    print(*search);
  }
  if (Status released = rank.trainer->finish(); !released) return released.error();
  return 0;
}

std::filesystem::path job_directory(const Settings& settings, const Environment& environment,
                                    const AttemptId& attempt) {
  if (const auto handed_over = environment(job_directory_variable);
      handed_over && !handed_over->empty()) {
    return *handed_over;
  }
  // The same for every launch of one job, so that a launch finds what the last one left.
  const Result<AttemptParts> parts = parse_attempt_id(attempt.str());
  const std::string job = parts ? parts->job_id : attempt.str();
  return settings.path("work_directory") / ("job-" + job);
}

// All jobs of a facility for one run share what lies there. An agent keeps the folders of jobs in
// STATE/jobs, where it clears out old ones: this one lies outside.
std::filesystem::path beside_jobs(const std::filesystem::path& job_directory,
                                  const std::string& name) {
  std::filesystem::path beside = std::filesystem::absolute(job_directory).parent_path();
  if (beside.filename() == "jobs") beside = beside.parent_path();
  return beside / name;
}

// Rank 0 alone speaks to the server.
Result<int> lead(const Settings& settings, Rank& rank) {
  const Environment environment = process_variables();
  JobOptions options;
  Result<JobRecord> record = read_job_record(environment, ask_scontrol(), std::time(nullptr));
  if (!record) return leave(rank, record.error());
  Result<Connection> connection = find_connection(settings, environment, rank.log);
  if (!connection) return leave(rank, connection.error());
  for (const std::string& note : connection->notes) rank.log.warning(note);
  options.record = std::move(*record);
  options.facility = FacilityId(connection->name);
  options.plan_key = environment("FEDQUEUE_PLAN_KEY").value_or("");
  options.job_directory = job_directory(settings, environment, options.record.attempt);
  const std::string run = connection->link.run.str();
  options.controls_directory = beside_jobs(options.job_directory, "controls-" + run);
  options.training_state = beside_jobs(options.job_directory, "training-" + run + ".safetensors");
  options.keep_s = settings.real("snapshot");
  options.reserve_s = settings.real("reserve");
  options.training = rank.training;
  options.interrupted = stop_signal_seen;
  rank.log = rank.log.with({{"run", connection->link.run},
                            {"facility", options.facility},
                            {"job", options.record.attempt}});
  connection->link.log = rank.log;
  Result<std::unique_ptr<Link>> link = Link::create(connection->link);
  if (!link) return leave(rank, link.error());
  Result<std::unique_ptr<Link>> heartbeats = Link::create(connection->link);
  if (!heartbeats) return leave(rank, heartbeats.error());
  rank.log.info("job begins", {{"ranks", rank.collective->size()},
                               {"record", options.record.source},
                               {"queue_wait_s", options.record.queue.queue_wait_s.value_or(0)},
                               {"remaining_s", options.record.queue.remaining_s.value_or(0)}});
  return run_job(*rank.trainer, *rank.collective, **link, **heartbeats, options, rank.log);
}

Result<int> train(const Settings& settings) {
  // A bad --fed-* option is everybody's end, before anything is joined or loaded.
  if (const auto problem = process_variables()("FED_ERROR"); problem && !problem->empty()) {
    return Error{Code::usage, *problem, "Correct the --fed-* options of the job and submit again."};
  }
  Result<Rank> rank = start_rank(settings);
  if (!rank) return rank.error();
  return rank->leads() ? lead(settings, *rank) : Result<int>(follow(*rank));
}

}  // namespace

std::vector<Command> train_commands() {
  Command job;
  job.verb = "train";
  job.summary = "Train for a run, inside a batch job";
  job.details =
      "Started once per rank by srun or mpirun. Rank 0 registers the job, fetches models and sends "
      "updates until the server says stop, the allocation ends or a signal arrives.";
  job.examples = {"srun --mpi=pmix fedclient train --run mnist --dataset parts/site-a",
                  "mpirun fedclient train"};
  job.options = all_of({connection_options(),
                        computing_options(),
                        training_options(),
                        process_options(),
                        {{.name = "work_directory",
                          .kind = Kind::path,
                          .built_in = ".",
                          .help = "Where models and unfinished updates are kept.",
                          .value_name = "DIR"},
                         {.name = "reserve",
                          .kind = Kind::seconds,
                          .built_in = "30",
                          .help = "Kept free before the allocation ends, to send the update.",
                          .minimum = 0}}});
  job.run = train;

  Command local;
  local.verb = "train local";
  local.summary = "Train without a server, to try a setup or to measure it";
  local.examples = {"mpirun -n 2 fedclient train local --initial initial.safetensors --steps 200"};
  local.options = all_of({computing_options(),
                          training_options(),
                          process_options(),
                          {{.name = "initial",
                            .kind = Kind::path,
                            .built_in = "initial.safetensors",
                            .help = "Model to start from.",
                            .value_name = "FILE",
                            .in_files = false},
                           {.name = "steps",
                            .kind = Kind::integer,
                            .built_in = "100",
                            .help = "Steps to run.",
                            .minimum = 1,
                            .in_files = false},
                           {.name = "learning_rate",
                            .kind = Kind::real,
                            .built_in = "0.05",
                            .help = "Of every step.",
                            .minimum = 0,
                            .in_files = false},
                           {.name = "state",
                            .kind = Kind::path,
                            .help = "Go on with the optimiser's state and the places in schedule "
                                    "and data that are kept here, and keep them here.",
                            .value_name = "FILE",
                            .in_files = false},
                           {.name = "output",
                            .kind = Kind::path,
                            .help = "Write the trained model here.",
                            .short_form = 'o',
                            .value_name = "FILE",
                            .in_files = false},
                           {.name = "update",
                            .kind = Kind::path,
                            .help = "Write the difference to the start here.",
                            .value_name = "FILE",
                            .in_files = false}}});
  local.reads = true;
  local.run = train_local;

  Command rate;
  rate.verb = "train find-rate";
  rate.summary = "Look for a learning rate: where the slope of the loss changes its sign";
  rate.details =
      "Gradient-only line searches (GOLS-I) one after the other, each along the optimiser's first "
      "update and with a new mini-batch for every look. The rate is the median of the lengths, "
      "times "
      "1 - momentum. The model is not written. Schedules play no part.";
  rate.examples = {"fedclient train find-rate --initial initial.safetensors --batch_size 256"};
  rate.options = all_of({computing_options(),
                         training_options(),
                         process_options(),
                         {{.name = "initial",
                           .kind = Kind::path,
                           .built_in = "initial.safetensors",
                           .help = "Model to start from.",
                           .value_name = "FILE",
                           .in_files = false},
                          {.name = "searches",
                           .kind = Kind::integer,
                           .built_in = "50",
                           .help = "How many, of about three gradients each.",
                           .minimum = 1,
                           .maximum = 1e6,
                           .in_files = false},
                          {.name = "start",
                           .kind = Kind::real,
                           .built_in = "0.1",
                           .help = "Length to begin the first search with.",
                           .minimum = 1e-8,
                           .maximum = 1e7,
                           .in_files = false}}});
  rate.reads = true;
  rate.run = find_rate;
  return {job, local, rate};
}

}  // namespace fedqueue
