#include "fedclient/recipe/training_settings.h"

#include <functional>

#include "core/base/text.h"

namespace fedqueue {
namespace {

struct Entry {
  OptionSpec option;
  // The value is checked and in its one form (core/config/option.h).
  std::function<void(TrainingSettings&, const std::string&)> set;
  // What the option's kind cannot say about a value.
  std::function<Status(const std::string&)> check = {};
};

template <typename Target>
auto integer(Target target) {
  return [target](TrainingSettings& settings, const std::string& value) {
    target(settings) = static_cast<std::decay_t<decltype(target(settings))>>(*parse_integer(value));
  };
}

template <typename Target>
auto real(Target target) {
  return [target](TrainingSettings& settings, const std::string& value) {
    target(settings) = *parse_real(value);
  };
}

template <typename Target>
auto flag(Target target) {
  return [target](TrainingSettings& settings, const std::string& value) {
    target(settings) = value == "true";
  };
}

#define FEDQUEUE_FIELD(path) \
  [](TrainingSettings & s) -> auto& { return s.path; }

std::vector<Entry> make_table() {
  constexpr double kMany = 1e12;
  return {
      {{.name = "batch_size",
        .kind = Kind::integer,
        .built_in = "64",
        .help = "Samples per step over all ranks.",
        .minimum = 1,
        .maximum = 1e9},
       integer(FEDQUEUE_FIELD(batch_size))},
      {{.name = "batch_per_rank",
        .kind = Kind::flag,
        .built_in = "false",
        .help = "batch_size is that of one rank: more ranks, larger steps."},
       flag(FEDQUEUE_FIELD(batch_per_rank))},
      {{.name = "micro_batch",
        .kind = Kind::integer,
        .built_in = "0",
        .help = "Samples that a rank computes at a time; smaller ones need less memory (0: all).",
        .minimum = 0,
        .maximum = 1e9},
       integer(FEDQUEUE_FIELD(micro_batch))},
      {{.name = "optimizer",
        .built_in = "sgd",
        .help = "Of the local steps.",
        .choices = {"sgd", "adamw", "lars", "lamb", "lans"}},
       [](TrainingSettings& s, const std::string& value) {
         s.optimizer.kind = *parse_local_optimizer(value);
       }},
      {{.name = "momentum",
        .kind = Kind::real,
        .built_in = "0.9",
        .help = "Of sgd and lars.",
        .minimum = 0,
        .maximum = 1},
       real(FEDQUEUE_FIELD(optimizer.momentum))},
      {{.name = "nesterov", .kind = Kind::flag, .built_in = "false", .help = "Of sgd."},
       flag(FEDQUEUE_FIELD(optimizer.nesterov))},
      {{.name = "beta1",
        .kind = Kind::real,
        .built_in = "0.9",
        .help = "Of adamw, lamb and lans: decay of the mean gradient.",
        .minimum = 0,
        .maximum = 0.999999},
       real(FEDQUEUE_FIELD(optimizer.beta1))},
      {{.name = "beta2",
        .kind = Kind::real,
        .built_in = "0.999",
        .help = "Of adamw, lamb and lans: decay of the mean squared gradient.",
        .minimum = 0,
        .maximum = 0.999999999},
       real(FEDQUEUE_FIELD(optimizer.beta2))},
      {{.name = "epsilon",
        .kind = Kind::real,
        .help = "Added to the root of the mean square; 1e-8 for adamw, 1e-6 for lamb and lans.",
        .minimum = 1e-30,
        .maximum = 1},
       real(FEDQUEUE_FIELD(optimizer.epsilon))},
      {{.name = "weight_decay",
        .kind = Kind::real,
        .help = "0 for sgd, 5e-4 for lars, 0.01 for the others; biases and norms do not decay.",
        .minimum = 0,
        .maximum = 1e6},
       real(FEDQUEUE_FIELD(optimizer.weight_decay))},
      {{.name = "trust_coefficient",
        .kind = Kind::real,
        .built_in = "0.001",
        .help = "Of lars: length of a step relative to the layer's weights.",
        .minimum = 1e-12,
        .maximum = 1e6},
       real(FEDQUEUE_FIELD(optimizer.trust_coefficient))},
      {{.name = "clip_norm",
        .kind = Kind::real,
        .built_in = "0",
        .help = "Longest gradient; 0: any.",
        .minimum = 0,
        .maximum = 1e30},
       real(FEDQUEUE_FIELD(optimizer.clip_norm))},
      {{.name = "proximal",
        .kind = Kind::real,
        .built_in = "0",
        .help = "Pull towards the segment's base (FedProx).",
        .minimum = 0,
        .maximum = 1e6},
       real(FEDQUEUE_FIELD(proximal))},
      {{.name = "lr_schedule",
        .built_in = "constant",
        .help = "How the learning rate falls over this facility's steps.",
        .choices = {"constant", "step", "cosine", "polynomial"}},
       [](TrainingSettings& s, const std::string& value) {
         s.learning_rate.schedule = *parse_lr_schedule(value);
       }},
      {{.name = "lr_schedule_steps",
        .kind = Kind::integer,
        .built_in = "0",
        .help = "Of cosine and polynomial: all steps, with warm-up; then the end is kept.",
        .minimum = 0,
        .maximum = kMany},
       integer(FEDQUEUE_FIELD(learning_rate.steps))},
      {{.name = "lr_warm_up_steps",
        .kind = Kind::integer,
        .built_in = "0",
        .help = "Steps over which the rate rises, whenever the optimiser begins empty.",
        .minimum = 0,
        .maximum = kMany},
       integer(FEDQUEUE_FIELD(learning_rate.warm_up_steps))},
      {{.name = "lr_warm_up",
        .built_in = "linear",
        .help = "How the rate rises: linearly to the full one, or exponentially until the losses "
                "have passed their minimum.",
        .choices = {"linear", "auto"}},
       [](TrainingSettings& s, const std::string& value) {
         s.learning_rate.auto_warm_up = value == "auto";
       }},
      {{.name = "lr_warm_up_test",
        .built_in = "gaussian_process",
        .help = "Of lr_warm_up = auto: how the losses are judged.",
        .choices = {"gaussian_process", "kernel"}},
       [](TrainingSettings& s, const std::string& value) {
         s.learning_rate.warm_up_test = *parse_loss_test(value);
       }},
      {{.name = "lr_warm_up_start",
        .kind = Kind::real,
        .help = "Share of the rate to begin with; 0.1, with lr_reference_batch the unscaled "
                "rate, with lr_warm_up = auto 1e-5.",
        .minimum = 0,
        .maximum = 1},
       real(FEDQUEUE_FIELD(learning_rate.warm_up_start))},
      {{.name = "lr_hold_steps",
        .kind = Kind::integer,
        .built_in = "0",
        .help = "Steps at the full rate before it falls.",
        .minimum = 0,
        .maximum = kMany},
       integer(FEDQUEUE_FIELD(learning_rate.hold_steps))},
      {{.name = "lr_step_every",
        .kind = Kind::integer,
        .built_in = "0",
        .help = "Of step: steps between two falls.",
        .minimum = 0,
        .maximum = kMany},
       integer(FEDQUEUE_FIELD(learning_rate.step_every))},
      {{.name = "lr_step_factor",
        .kind = Kind::real,
        .built_in = "0.1",
        .help = "Of step: what is left at each fall.",
        .minimum = 0,
        .maximum = 1},
       real(FEDQUEUE_FIELD(learning_rate.step_factor))},
      {{.name = "batch_growth",
        .kind = Kind::integer,
        .built_in = "1",
        .help = "Of step: multiply the batch by this instead of lowering the rate (1: never).",
        .minimum = 1,
        .maximum = 1e6},
       integer(FEDQUEUE_FIELD(learning_rate.batch_growth))},
      {{.name = "batch_size_max",
        .kind = Kind::integer,
        .built_in = "0",
        .help = "Of batch_growth: the largest global batch; then the rate falls after all (0: a "
                "tenth of the dataset).",
        .minimum = 0,
        .maximum = 1e9},
       integer(FEDQUEUE_FIELD(learning_rate.batch_max))},
      {{.name = "lr_power",
        .kind = Kind::real,
        .built_in = "2",
        .help = "Of polynomial; 1 is a straight line.",
        .minimum = 0.01,
        .maximum = 100},
       real(FEDQUEUE_FIELD(learning_rate.power))},
      {{.name = "lr_end",
        .kind = Kind::real,
        .built_in = "0",
        .help = "Of cosine and polynomial: share of the rate that is left at the end.",
        .minimum = 0,
        .maximum = 1},
       real(FEDQUEUE_FIELD(learning_rate.end))},
      {{.name = "lr_reference_batch",
        .kind = Kind::integer,
        .built_in = "0",
        .help = "Global batch that the rate is meant for: others scale it (0: none does).",
        .minimum = 0,
        .maximum = 1e9},
       integer(FEDQUEUE_FIELD(learning_rate.reference_batch))},
      {{.name = "lr_ramp_steps",
        .kind = Kind::integer,
        .built_in = "8",
        .help = "Steps in which the rate follows a change of the global batch.",
        .minimum = 0,
        .maximum = kMany},
       integer(FEDQUEUE_FIELD(learning_rate.ramp_steps))},
      {{.name = "adascale",
        .kind = Kind::flag,
        .built_in = "false",
        .help = "Scale the rate by what the ranks' gradients agree on; it is that of one rank."},
       flag(FEDQUEUE_FIELD(adascale))},
      {{.name = "sampling",
        .built_in = "shuffled",
        .help = "Every sample once in an epoch, every class equally often, or samples that are not "
                "learnt yet more often.",
        .choices = {"shuffled", "balanced", "loss_weighted"}},
       [](TrainingSettings& s, const std::string& value) {
         s.sampling = value == "balanced"        ? Sampling::balanced
                      : value == "loss_weighted" ? Sampling::loss_weighted
                                                 : Sampling::shuffled;
       }},
      {{.name = "sampling_floor",
        .kind = Kind::real,
        .built_in = "0.5",
        .help = "Of loss_weighted: how often each sample comes in an epoch at least, on average.",
        .minimum = 0.001,
        .maximum = 1},
       real(FEDQUEUE_FIELD(sampling_floor))},
      {{.name = "sampling_memory",
        .kind = Kind::real,
        .built_in = "0.5",
        .help = "Of loss_weighted: share of a sample's earlier losses in their running mean.",
        .minimum = 0,
        .maximum = 0.999},
       real(FEDQUEUE_FIELD(sampling_memory))},
      {{.name = "augment_flip",
        .kind = Kind::flag,
        .built_in = "false",
        .help = "Turn half of the training images over, left to right."},
       flag(FEDQUEUE_FIELD(augmentation.flip))},
      {{.name = "augment_crop",
        .kind = Kind::integer,
        .built_in = "0",
        .help = "Pixels around a training image of which a random part is kept.",
        .minimum = 0,
        .maximum = 4096},
       integer(FEDQUEUE_FIELD(augmentation.crop))},
      {{.name = "normalize",
        .help = "Means and deviations of the inputs, bytes counting from 0 to 1.",
        .value_name = "MEAN,…/DEVIATION,…"},
       [](TrainingSettings& s, const std::string& value) {
         s.augmentation.normalization = *parse_normalization(value);
       },
       [](const std::string& value) -> Status {
         const Result<Normalization> parsed = parse_normalization(value);
         return parsed ? Status() : parsed.error();
       }},
      {{.name = "seed",
        .kind = Kind::integer,
        .built_in = "1",
        .help = "Seed of the order of the samples.",
        .minimum = 0},
       integer(FEDQUEUE_FIELD(seed))},
  };
}

#undef FEDQUEUE_FIELD

const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = make_table();
  return entries;
}

Error contradiction(const std::string& what, const std::string& cure) {
  return {Code::usage, "start training: " + what, cure};
}

}  // namespace

std::vector<OptionSpec> training_options() {
  std::vector<OptionSpec> options;
  for (const Entry& entry : table()) options.push_back(entry.option);
  return options;
}

Result<TrainingSettings> training_settings(const std::map<std::string, std::string>& values,
                                           TrainingSettings otherwise) {
  TrainingSettings settings = otherwise;
  for (const Entry& entry : table()) {
    const auto given = values.find(entry.option.name);
    if (given == values.end()) continue;
    const Result<std::string> value = checked_value(entry.option, given->second);
    if (!value) {
      Error error = value.error();
      error.message = "read the training setting " + entry.option.name + ": " + error.message;
      error.code = Code::usage;
      return error;
    }
    if (entry.check) {
      if (Status status = entry.check(*value); !status) return status.error();
    }
    entry.set(settings, *value);
  }
  return settings;
}

Status check_training_name(const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : table()) {
    if (entry.option.name == name) return {};
    names.push_back(entry.option.name);
  }
  const std::string meant = nearest(name, names);
  return Error{
      Code::usage, "read the training settings: '" + name + "' is none of them",
      meant.empty() ? "They are " + join(names, ", ") + "." : "Did you mean " + meant + "?"};
}

Status check_training(const TrainingSettings& settings, int ranks) {
  if (settings.global_batch(ranks) < ranks) {
    return contradiction(
        "a batch of " + std::to_string(settings.batch_size) + " cannot be shared by " +
            std::to_string(ranks) + " ranks",
        "Raise batch_size (it counts the samples of all ranks), or start fewer ranks.");
  }
  const OptimizerSettings& optimizer = settings.optimizer;
  if (optimizer.nesterov && (optimizer.kind != LocalOptimizer::sgd || optimizer.momentum == 0)) {
    return contradiction("nesterov is for sgd with momentum",
                         "Leave nesterov out, or set optimizer = sgd and a momentum.");
  }
  if (settings.adascale && settings.learning_rate.reference_batch > 0) {
    return contradiction("adascale and lr_reference_batch both scale the learning rate",
                         "Keep one of them.");
  }
  if (settings.adascale && settings.learning_rate.auto_warm_up) {
    return contradiction("adascale and lr_warm_up = auto both look for the learning rate",
                         "Keep one of them.");
  }
  return check(settings.learning_rate);
}

Status check_controls(const TrainingSettings& settings) {
  const OptimizerSettings& optimizer = settings.optimizer;
  const bool plain = optimizer.kind == LocalOptimizer::sgd && optimizer.momentum == 0;
  if (plain && optimizer.clip_norm == 0) return {};
  const std::string what = optimizer.kind != LocalOptimizer::sgd
                               ? std::string("the optimizer is ") + to_text(optimizer.kind)
                           : optimizer.momentum != 0
                               ? "momentum is " + std::to_string(optimizer.momentum)
                               : "clip_norm is " + std::to_string(optimizer.clip_norm);
  return Error{
      Code::usage,
      "train with control variates: they are estimated from the steps of plain SGD, and " + what,
      "Set training.optimizer = sgd, training.momentum = 0 and no clip_norm in the run's "
      "configuration (a server optimiser can have momentum all the same)."};
}

}  // namespace fedqueue
