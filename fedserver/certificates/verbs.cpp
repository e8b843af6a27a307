#include "fedserver/certificates/verbs.h"

#include <iostream>

#include "fedserver/certificates/commands.h"

namespace fedqueue {
namespace {

const ArgumentSpec run_directory_argument{
    .name = "RUN", .help = "The run directory; the current folder if left out.", .required = false};

std::vector<OptionSpec> run_settings() {
  return {{.name = "run", .help = "The run's name, for kits.", .shown_in_help = false},
          {.name = "server",
           .help = "The address that clients connect to, for kits.",
           .value_name = "https://HOST:PORT"}};
}

OptionSpec days_option() {
  return {.name = "days",
          .kind = Kind::integer,
          .built_in = "365",
          .help = "How many days the certificate is valid.",
          .minimum = 1,
          .maximum = 3650,
          .in_files = false};
}

OptionSpec kind_option() {
  return {.name = "kind",
          .help = "Which one is meant if several kinds have the name.",
          .choices = {"facility", "operator", "observer", "server"},
          .in_files = false};
}

std::vector<OptionSpec> output_options() {
  return {days_option(),
          {.name = "output",
           .kind = Kind::path,
           .help = "The folder to write the kit to.",
           .short_form = 'o',
           .value_name = "DIR",
           .in_files = false}};
}

std::vector<OptionSpec> kit_options() {
  return all_of(
      {output_options(),
       {{.name = "csr",
         .kind = Kind::path,
         .help = "Sign this request of 'fedclient kit request' instead of making a key here.",
         .value_name = "FILE",
         .in_files = false}}});
}

// REQUIRES: the verb's arguments before the run directory are as many as given here.
CertificateRun run_of(const Settings& settings, std::size_t arguments_before) {
  const std::string named = settings.argument(arguments_before);
  CertificateRun run;
  run.files.run_directory = named.empty() ? "." : named;
  run.run = settings.text("run");
  run.server_url = settings.text("server");
  return run;
}

Result<int> print(const Settings& settings, const Result<CertificateReport>& report) {
  if (!report) return report.error();
  for (const std::string& note : report->notes) std::cerr << "note: " << note << "\n";
  std::cout << (settings.text("format") == "json" ? report->json : report->text);
  return 0;
}

Command base(const std::string& verb, const std::string& summary, std::size_t arguments_before) {
  Command command;
  command.verb = verb;
  command.summary = summary;
  command.options = run_settings();
  command.reads = true;  // what was changed is also a result a script may read
  command.user_file = [arguments_before](const std::vector<std::string>& arguments) {
    const std::filesystem::path folder(
        arguments.size() > arguments_before ? arguments[arguments_before] : ".");
    return folder / "config.ini";
  };
  return command;
}

ClientCertificateOrder order_of(const Settings& settings, IdentityKind kind,
                                const std::string& name) {
  ClientCertificateOrder order;
  order.identity = {kind, name};
  order.output = settings.path("output");
  if (settings.has("csr")) order.request_file = settings.path("csr");
  order.lifetime = std::chrono::days(settings.integer("days"));
  if (settings.has("samples")) order.samples = settings.integer("samples");
  return order;
}

OptionSpec samples_option() {
  return {.name = "samples",
          .kind = Kind::integer,
          .help = "How many samples the facility trains on; fixes its share of the average.",
          .minimum = 1,
          .in_files = false};
}

Command facility_command() {
  Command command = base("cert facility", "Enrol a facility and make its kit.", 1);
  command.examples = {"fedserver cert facility site-a --samples 60000",
                      "fedserver cert facility site-a --samples 60000 -o kits/site-a",
                      "fedserver cert facility site-a --samples 60000 --csr client.csr"};
  command.arguments = {{.name = "NAME", .help = "1 to 63 of a-z, 0-9 and -."},
                       run_directory_argument};
  command.options = all_of({{samples_option()}, kit_options(), command.options});
  command.run = [](const Settings& settings) {
    return print(settings, issue_client_certificate(
                               run_of(settings, 1),
                               order_of(settings, IdentityKind::facility, settings.argument(0))));
  };
  return command;
}

Command person_command(IdentityKind kind, const std::string& summary) {
  const std::string word = identity_kind_name(kind);
  Command command = base("cert " + word, summary, 1);
  command.examples = {"fedserver cert " + word + " ada"};
  command.arguments = {{.name = "NAME", .help = "1 to 63 of a-z, 0-9 and -."},
                       run_directory_argument};
  command.options = all_of({kit_options(), command.options});
  command.run = [kind](const Settings& settings) {
    return print(settings,
                 issue_client_certificate(run_of(settings, 1),
                                          order_of(settings, kind, settings.argument(0))));
  };
  return command;
}

Command sign_command() {
  Command command = base("cert sign", "Sign a request that was made where the key stays.", 2);
  command.details =
      "The same as 'cert facility NAME --csr FILE' and its like. The name is the one given here, "
      "whatever the request says.";
  command.examples = {"fedserver cert sign client.csr site-a --samples 60000",
                      "fedserver cert sign client.csr ada --kind operator"};
  command.arguments = {{.name = "FILE", .help = "The request, client.csr."},
                       {.name = "NAME", .help = "Who gets the certificate."},
                       run_directory_argument};
  OptionSpec kind = kind_option();
  kind.help = "What the name is.";
  kind.built_in = "facility";
  kind.choices.pop_back();
  command.options = all_of({{kind, samples_option()}, output_options(), command.options});
  command.run = [](const Settings& settings) -> Result<int> {
    ClientCertificateOrder order =
        order_of(settings, *identity_kind_named(settings.text("kind")), settings.argument(1));
    order.request_file = settings.argument(0);
    return print(settings, issue_client_certificate(run_of(settings, 2), order));
  };
  return command;
}

Command server_command() {
  Command command = base("cert server", "Make a new certificate for the server.", 0);
  command.details = "A running server takes it over without a restart.";
  command.examples = {"fedserver cert server --host fl.example.org --ip 192.0.2.7"};
  command.arguments = {run_directory_argument};
  command.options = all_of({{{.name = "host",
                              .help = "A name that clients connect to.",
                              .value_name = "NAME",
                              .repeated = true,
                              .in_files = false},
                             {.name = "ip",
                              .help = "An address that clients connect to.",
                              .value_name = "ADDRESS",
                              .repeated = true,
                              .in_files = false},
                             days_option()},
                            command.options});
  command.run = [](const Settings& settings) {
    const ServerCertificateOrder order{settings.list("host"), settings.list("ip"),
                                       std::chrono::days(settings.integer("days"))};
    return print(settings, issue_server_certificate(run_of(settings, 0), order));
  };
  return command;
}

Command renew_command() {
  Command command = base("cert renew", "Make a new kit for a name that has one.", 1);
  command.details =
      "The old certificate works until it expires, so that jobs in the queue are not cut off, "
      "unless --revoke-old is given.";
  command.examples = {"fedserver cert renew site-a", "fedserver cert renew site-a --revoke-old"};
  command.arguments = {{.name = "NAME", .help = "Whose certificate."}, run_directory_argument};
  command.options = all_of({kit_options(),
                            {kind_option(),
                             {.name = "revoke_old",
                              .kind = Kind::flag,
                              .help = "Refuse the old certificate from now on.",
                              .in_files = false}},
                            command.options});
  command.run = [](const Settings& settings) {
    const RenewalOrder order{settings.argument(0),
                             settings.text("kind"),
                             settings.path("output"),
                             settings.path("csr"),
                             std::chrono::days(settings.integer("days")),
                             settings.flag("revoke_old")};
    return print(settings, renew_client_certificate(run_of(settings, 1), order));
  };
  return command;
}

Command revoke_command() {
  Command command = base("cert revoke", "Refuse certificates from now on.", 1);
  command.examples = {"fedserver cert revoke site-a", "fedserver cert revoke 3f9c24d1a07be852"};
  command.arguments = {
      {.name = "NAME|FINGERPRINT", .help = "All certificates of a name, or one of them."},
      run_directory_argument};
  command.options = all_of({{kind_option()}, command.options});
  command.run = [](const Settings& settings) {
    return print(settings, revoke_certificates(run_of(settings, 1), settings.argument(0),
                                               settings.text("kind")));
  };
  return command;
}

Command samples_command() {
  Command command = base("cert samples", "Change the share of a facility on purpose.", 2);
  command.examples = {"fedserver cert samples site-a 80000"};
  command.arguments = {{.name = "NAME", .help = "The facility."},
                       {.name = "SAMPLES", .help = "Its new number of samples."},
                       run_directory_argument};
  command.run = [](const Settings& settings) -> Result<int> {
    OptionSpec spec = samples_option();
    Result<std::string> samples = checked_value(spec, settings.argument(1));
    if (!samples) return samples.error();
    return print(settings, change_facility_samples(run_of(settings, 2), settings.argument(0),
                                                   std::stoll(*samples)));
  };
  return command;
}

Command list_command() {
  Command command = base("cert list", "List certificates, their expiry and the facilities.", 0);
  command.examples = {"fedserver cert list", "fedserver cert list --format json"};
  command.arguments = {run_directory_argument};
  command.run = [](const Settings& settings) {
    return print(settings, list_certificates(run_of(settings, 0)));
  };
  return command;
}

}  // namespace

std::vector<Command> certificate_commands() {
  return {facility_command(),
          person_command(IdentityKind::administrator, "Make a kit for an operator of the run."),
          person_command(IdentityKind::observer, "Make a kit for somebody who only reads."),
          server_command(),
          sign_command(),
          renew_command(),
          revoke_command(),
          samples_command(),
          list_command()};
}

}  // namespace fedqueue
