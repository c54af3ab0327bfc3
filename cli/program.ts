/** The `flynn` command: its commands put together, and errors told to people. */
import { Command, CommanderError } from 'commander';
import { asFlynnError } from '@flynn/kit/errors';
import { assertUtf8, isUsageError } from './arguments.ts';
import { addAccessCommands } from './commands/access.ts';
import { addAppCommands } from './commands/app.ts';
import { addApplyCommands } from './commands/apply.ts';
import { addAutoscaleCommands } from './commands/autoscale.ts';
import { addAuditCommand } from './commands/audit.ts';
import { addEventsCommand } from './commands/events.ts';
import { addBuildCommands } from './commands/build.ts';
import { addClusterCommands } from './commands/cluster.ts';
import { type Parent, withCommonOptions } from './commands/command.ts';
import { addCompletionCommand } from './commands/completion.ts';
import { addConstraintCommands } from './commands/constraint.ts';
import { addDashboardCommand } from './commands/dashboard.ts';
import { addCronCommands } from './commands/cron.ts';
import { addDeploymentCommands } from './commands/deployment.ts';
import { addDrainCommands } from './commands/drain.ts';
import { addEnvCommands } from './commands/env.ts';
import { addJobCommands } from './commands/job.ts';
import { addEvaluationCommands } from './commands/eval.ts';
import { addGetCommand } from './commands/get.ts';
import { addHelpCommand } from './commands/help.ts';
import { addExecCommand } from './commands/exec.ts';
import { addExportCommands } from './commands/export.ts';
import { addCollectCommand } from './commands/gc.ts';
import { addHostCommands } from './commands/host.ts';
import { addImageCommands } from './commands/image.ts';
import { addKeyCommands } from './commands/key.ts';
import { addLimitCommands } from './commands/limit.ts';
import { addLinkCommands } from './commands/link.ts';
import { addLogCommand } from './commands/log.ts';
import { addNotificationCommands } from './commands/notification.ts';
import { addOperationCommands } from './commands/operation.ts';
import { addMaintenanceCommands } from './commands/maintenance.ts';
import { addMetaCommands } from './commands/meta.ts';
import { addMysqlCommands } from './commands/mysql.ts';
import { addPostgresCommands } from './commands/pg.ts';
import { addRedisCommands } from './commands/redis.ts';
import { addPromoteCommands } from './commands/promote.ts';
import { addLoginCommand } from './commands/login.ts';
import { addProviderCommands } from './commands/provider.ts';
import { addRegistryCommands } from './commands/registry.ts';
import { addReleaseCommands } from './commands/release.ts';
import { addRemoteCommands } from './commands/remote.ts';
import { addResourceCommand } from './commands/resource.ts';
import { addKindsCommand } from './commands/kinds.ts';
import { addRouteCommands } from './commands/route.ts';
import { addRunCommand } from './commands/run.ts';
import { addRunnerCommands } from './commands/runner.ts';
import { addScaleCommand } from './commands/scale.ts';
import { addSourceCommands } from './commands/source.ts';
import { addStatusCommands } from './commands/status.ts';
import { addTeamCommands } from './commands/team.ts';
import { addTokenCommands } from './commands/token.ts';
import { addTopCommand } from './commands/top.ts';
import { addUserCommands } from './commands/user.ts';
import { addVolumeCommands } from './commands/volume.ts';
import { addVersionCommand } from './commands/version.ts';
import { explain } from './explanation.ts';
import type { Io } from './io.ts';
import { visible } from './output.ts';
import packageFile from './package.json' with { type: 'json' };

/** Runs one command line; answers the exit code: 0, 1 for what went wrong, 2 for wrong usage, or the job's own. */
export async function runCli(argv: readonly string[], io: Io): Promise<number> {
  let exitCode = 0;
  const program = openProgram(io, (code) => (exitCode = code));
  try {
    assertUtf8(argv);
    await program.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const known = asFlynnError(error);
    io.stderr.write(`flynn: ${visible(explain(known))}\n`);
    return isUsageError(known) ? 2 : 1;
  }
}

/** Every command there is; `exitWith` is told the code of one that ends with another than 0. */
export function openProgram(io: Io, exitWith: (code: number) => void): Command {
  const program = new Command('flynn')
    .description('git push flynn main, on your own machines')
    .version(packageFile.version, '--version', 'the version of this command')
    .enablePositionalOptions()
    .exitOverride()
    .showHelpAfterError('  "flynn help COMMAND" tells what a command takes')
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => write(visible(refusalText(text))),
      getOutHelpWidth: () => io.stdout.columns ?? 100,
      getErrHelpWidth: () => io.stderr.columns ?? 100,
      getOutHasColors: () => io.stdout.isTTY === true,
      getErrHasColors: () => io.stderr.isTTY === true,
    });
  withCommonOptions(program);
  const parent: Parent = { program, io, exitWith };
  addClusterCommands(parent);
  addAppCommands(parent);
  addRemoteCommands(parent);
  addJobCommands(parent);
  addTopCommand(parent);
  addScaleCommand(parent);
  addAutoscaleCommands(parent);
  addRunCommand(parent);
  addExecCommand(parent);
  addLogCommand(parent);
  addDrainCommands(parent);
  addNotificationCommands(parent);
  addEnvCommands(parent);
  addLinkCommands(parent);
  addProviderCommands(parent);
  addResourceCommand(parent);
  addPostgresCommands(parent);
  addRedisCommands(parent);
  addMysqlCommands(parent);
  addReleaseCommands(parent);
  addImageCommands(parent);
  addRegistryCommands(parent);
  addDeploymentCommands(parent);
  addCronCommands(parent);
  addSourceCommands(parent);
  addBuildCommands(parent);
  addLimitCommands(parent);
  addConstraintCommands(parent);
  addPromoteCommands(parent);
  addExportCommands(parent);
  addMetaCommands(parent);
  addCollectCommand(parent);
  addRouteCommands(parent);
  addMaintenanceCommands(parent);
  addKeyCommands(parent);
  addGetCommand(parent);
  addApplyCommands(parent);
  addKindsCommand(parent);
  addStatusCommands(parent);
  addDashboardCommand(parent);
  addHostCommands(parent);
  addEvaluationCommands(parent);
  addVolumeCommands(parent);
  addLoginCommand(parent);
  addUserCommands(parent);
  addTeamCommands(parent);
  addAccessCommands(parent);
  addTokenCommands(parent);
  addAuditCommand(parent);
  addEventsCommand(parent);
  addOperationCommands(parent);
  addRunnerCommands(parent);
  addVersionCommand(parent);
  addCompletionCommand(parent);
  addHelpCommand(parent);
  return program;
}

/** Words that other tools have for what a command here does in another way. */
const otherWords: ReadonlyMap<string, string> = new Map([
  ['watch', '"flynn get KIND [NAME] -w" goes on with changes, as in: flynn get apps -w'],
]);

function refusalText(text: string): string {
  const [, word = ''] = /^error: unknown command '([^']*)'\n?$/.exec(text) ?? [];
  const hint = otherWords.get(word);
  if (hint !== undefined) return `flynn: unknown command '${word}'\n  ${hint}\n`;
  return text.replace(/^error: /, 'flynn: ').replace(/\n\(Did you mean (.*)\?\)/, '\n  did you mean $1?');
}
