#include "run_fixture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/prng.h"
#include "core/base/text.h"
#include "core/kit/kit.h"
#include "core/tensor/file.h"

namespace fedqueue::test {
namespace {

using Clock = std::chrono::steady_clock;

pid_t spawn(const std::vector<std::string>& arguments, int output) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(output, 1);
    ::dup2(output, 2);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return pid;
}

void check(const Status& status) { ASSERT_TRUE(status) << status.error().message; }

std::vector<float> read_floats(const tensor::Reader& reader, const tensor::TensorInfo& info) {
  std::vector<float> values(info.elements());
  check(reader.read_tensor(info, std::as_writable_bytes(std::span(values))));
  return values;
}

}  // namespace

Finished run_program_to_end(const std::vector<std::string>& arguments, double seconds_max) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  const pid_t pid = spawn(arguments, pipe_ends[1]);
  ::close(pipe_ends[1]);
  Finished finished;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds_max);
  char buffer[65536];
  for (;;) {
    pollfd polled{pipe_ends[0], POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (::poll(&polled, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) <= 0) {
      ADD_FAILURE() << arguments[0] << " did not end in time; its output:\n" << finished.output;
      ::kill(pid, SIGKILL);
      break;
    }
    const ssize_t count = ::read(pipe_ends[0], buffer, sizeof buffer);
    if (count <= 0) break;
    finished.output.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "fedqueue-test-XXXXXX").string();
  path_ = ::mkdtemp(name.data());
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string program_path(const std::string& name) {
  return std::string(FEDQUEUE_TEST_PROGRAMS) + "/" + name + "/" + name;
}

tensor::Manifest small_structure(std::int64_t width) {
  std::map<std::string, std::string> metadata = {{"fedqueue.buffers", "norm.running_mean"}};
  return *tensor::lay_out(
      {{.name = "fc.weight", .dtype = tensor::DType::f32, .shape = {width, 64}},
       {.name = "fc.bias", .dtype = tensor::DType::f32, .shape = {width}},
       {.name = "norm.running_mean", .dtype = tensor::DType::f32, .shape = {8}},
       {.name = "norm.num_batches_tracked", .dtype = tensor::DType::i64, .shape = {}}},
      metadata);
}

void write_model(const std::filesystem::path& path, const tensor::Manifest& structure,
                 std::uint64_t seed) {
  Result<tensor::Writer> writer = tensor::Writer::create(path, structure);
  ASSERT_TRUE(writer) << writer.error().message;
  Prng prng(seed);
  for (const tensor::TensorInfo& info : writer->manifest().tensors) {
    if (info.dtype == tensor::DType::i64) {
      const std::int64_t counter = 7;
      check(writer->write(std::as_bytes(std::span(&counter, 1))));
      continue;
    }
    std::vector<float> values(info.elements());
    for (float& value : values) value = static_cast<float>(prng.normal());
    check(writer->write(std::as_bytes(std::span(values))));
  }
  ASSERT_TRUE(writer->finish());
}

UpdateMetadata write_update(const std::filesystem::path& base, const std::filesystem::path& update,
                            const std::string& facility, const Segment& segment) {
  UpdateMetadata metadata;
  metadata.base = segment.base;
  metadata.steps_run = segment.local_steps;
  metadata.seconds_per_step = 0.01;
  metadata.train_seconds = 0.01 * static_cast<double>(segment.local_steps);
  metadata.loss = 1;
  metadata.samples = 100;
  const Result<tensor::Reader> model = tensor::Reader::open(base);
  EXPECT_TRUE(model);
  Result<tensor::Writer> writer = tensor::Writer::create(update, model->manifest());
  EXPECT_TRUE(writer);
  const std::string seed_text = facility + std::to_string(segment.base);
  Prng prng(std::hash<std::string>()(sha256_hex(seed_text)));
  for (const tensor::TensorInfo& info : writer->manifest().tensors) {
    if (info.dtype == tensor::DType::i64) {
      const std::int64_t counter = 7 + 10 * (segment.base + 1) + (facility == "alpha" ? 0 : 1);
      check(writer->write(std::as_bytes(std::span(&counter, 1))));
      continue;
    }
    std::vector<float> values = read_floats(*model, info);
    for (float& value : values) value = -0.1F * value + static_cast<float>(0.01 * prng.normal());
    check(writer->write(std::as_bytes(std::span(values))));
  }
  EXPECT_TRUE(writer->finish());
  return metadata;
}

std::string file_sha256(const std::filesystem::path& path) {
  const Result<std::string> content = read_file(path, 1u << 30);
  EXPECT_TRUE(content) << path;
  return content ? sha256_hex(*content) : "";
}

ServerRun::ServerRun(std::vector<std::string> options, std::vector<std::string> facilities,
                     std::int64_t model_width) {
  const std::filesystem::path initial = scratch() / "initial.safetensors";
  write_model(initial, small_structure(model_width), 1);
  std::vector<std::string> arguments = {
      program_path("fedserver"), "init",   directory().string(), "--run",  "test", "--initial",
      initial.string(),          "--host", "localhost",          "--port", "0"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Finished made = run_program_to_end(arguments);
  EXPECT_EQ(made.exit_code, 0) << made.output;
  for (const std::string& facility : facilities) {
    const Finished kit = server({"cert", "facility"}, {facility, "--samples", "100"});
    EXPECT_EQ(kit.exit_code, 0) << kit.output;
  }
}

ServerRun::~ServerRun() {
  if (alive()) kill_hard();
  if (::testing::Test::HasFailure()) {
    const Result<std::string> log = read_file(scratch() / "server.log", 1u << 20);
    if (log) {
      const std::size_t shown = std::min<std::size_t>(log->size(), 4000);
      std::fprintf(stderr, "--- end of the server's log\n%s\n",
                   log->substr(log->size() - shown).c_str());
    }
  }
}

Finished ServerRun::server(std::vector<std::string> verb, std::vector<std::string> rest) const {
  std::vector<std::string> arguments = {program_path("fedserver")};
  arguments.insert(arguments.end(), verb.begin(), verb.end());
  arguments.push_back(directory().string());
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return run_program_to_end(arguments);
}

void ServerRun::start() {
  std::error_code ignored;
  std::filesystem::remove(directory() / "server" / "endpoint", ignored);
  const Result<FileDescriptor> log =
      open_file(scratch() / "server.log", O_WRONLY | O_CREAT | O_APPEND);
  ASSERT_TRUE(log);
  pid_ = spawn({program_path("fedserver"), "run", directory().string()}, log->get());
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (!std::filesystem::exists(directory() / "server" / "endpoint", ignored)) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      FAIL() << "the server ended while it started";
    }
    ASSERT_LT(Clock::now(), deadline) << "the server does not answer";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void ServerRun::kill_hard() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

int ServerRun::stop_politely() {
  ::kill(pid_, SIGTERM);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string ServerRun::url() const {
  const Result<std::string> endpoint = read_file(directory() / "server" / "endpoint");
  return endpoint ? std::string(trim(*endpoint)) : "https://127.0.0.1:1";
}

LinkConfig ServerRun::link_config(const std::string& facility) const {
  const std::filesystem::path kit = directory() / "facilities" / facility;
  LinkConfig config;
  config.server_url = url();
  config.run = RunId("test");
  config.ca = kit / "ca.crt";
  config.certificate = kit / "client.crt";
  config.key = kit / "client.key";
  config.proxy = "direct";
  config.retry = {std::chrono::milliseconds(20), std::chrono::milliseconds(200),
                  std::chrono::milliseconds(200)};
  return config;
}

std::unique_ptr<Link> ServerRun::link(const std::string& facility) const {
  Result<std::unique_ptr<Link>> made = Link::create(link_config(facility));
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return std::move(*made);
}

PlayedFacility::PlayedFacility(ServerRun& run, std::string name)
    : run_(run), name_(std::move(name)) {}

const char* PlayedFacility::next_step() const {
  constexpr const char* names[] = {"plan", "enrol", "download", "upload", "leave"};
  return names[static_cast<int>(stage_)];
}

bool PlayedFacility::step() {
  if (finished_) return false;
  if (!link_) link_ = run_.link(name_);
  Status done;
  switch (stage_) {
    case Stage::plan:
      done = plan();
      break;
    case Stage::enrol:
      done = enrol();
      break;
    case Stage::download:
      done = download();
      break;
    case Stage::upload:
      done = upload();
      break;
    case Stage::leave:
      done = leave();
      break;
  }
  if (!done) {
    if (done.error().code == Code::run_finished) {
      finish_run();
    } else if (may_pass(done.error().code)) {
      link_.reset();  // the server may come back at another port
    } else {
      ADD_FAILURE() << name_ << " " << next_step() << ": " << done.error().message;
      finish_run();
    }
  }
  return !finished_;
}

Status PlayedFacility::plan() {
  if (key_.empty()) key_ = name_ + "-key-" + std::to_string(job_);
  PlanRequest request;
  request.key = key_;
  const Result<PlanAnswer> plan = link_->plan(request);
  if (!plan) return plan.error();
  if (plan->verb == PlanAnswer::Verb::stop) finish_run();
  if (plan->verb == PlanAnswer::Verb::submit) {
    attempt_ = make_attempt_id(std::to_string(1000 + job_), 0);
    stage_ = Stage::enrol;
  }
  return {};
}

Status PlayedFacility::enrol() {
  JobRegistration registration;
  registration.attempt = attempt_;
  registration.nonce = "launch";
  registration.plan_key = key_;
  registration.queue.queue_wait_s = queue_wait_s_;
  Result<JobAnswer> answer = link_->enrol(registration);
  if (!answer) return answer.error();
  answer_ = std::move(*answer);
  if (answer_.next.kind == Next::Kind::segment) stage_ = Stage::download;
  if (answer_.next.kind == Next::Kind::stop) stage_ = Stage::leave;
  return {};
}

Status PlayedFacility::download() {
  model_ = run_.scratch() / (name_ + "-base.safetensors");
  const Result<DownloadedModel> model = link_->download_model(answer_.next.segment.base, model_);
  if (!model) return model.error();
  EXPECT_EQ(file_sha256(model_), model->sha256);
  stage_ = Stage::upload;
  return {};
}

Status PlayedFacility::upload() {
  const Segment& segment = answer_.next.segment;
  const UpdateId id = make_update_id(FacilityId(name_), attempt_, segment.index);
  const std::filesystem::path file = run_.scratch() / (id.str() + ".safetensors");
  const UpdateMetadata metadata = write_update(model_, file, name_, segment);
  RetryPolicy once = run_.link_config(name_).retry;
  const Result<UpdateAnswer> answer = link_->upload_update(id, file, metadata, answer_.token, once);
  if (!answer) return answer.error();
  EXPECT_NE(answer->disposition, Disposition::rejected) << answer->reason;
  stage_ = answer->next.kind == Next::Kind::stop ? Stage::leave : Stage::enrol;
  return {};
}

Status PlayedFacility::leave() {
  const Status left = link_->end_job(attempt_, JobEnd{answer_.token, "done", ""});
  if (!left && left.error().code != Code::conflict) return left;
  key_.clear();
  ++job_;
  stage_ = Stage::plan;
  return {};
}

}  // namespace fedqueue::test
