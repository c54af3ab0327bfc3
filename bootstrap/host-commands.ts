/** What `flynn-host` does to this machine: makes it a host of a cluster, a new one or another's, and takes it out again. */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { styleText } from 'node:util';
import type { CliContext } from '@flynn/host-agent/cli/context';
import { messageOf } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { type BringUp, bringUp, goOnText } from './bring-up/bring-up.ts';
import { printToken } from './joining/token.ts';
import { changeOf } from './domain/domain.ts';
import { readFormation } from './joining/formation.ts';
import { interruptible } from './interrupts.ts';
import { isInstalled, root, versionOfThis } from './origin.ts';
import { takeDown } from './leaving/take-down.ts';
import { userOf } from './machine/other-clusters.ts';
import { refreshHost } from './update/refresh.ts';
import type { Rotation } from './rotation/rotation.ts';
import { rotationOf } from './rotation/flags.ts';
import { updateCluster } from './update/update.ts';

type BootstrapOptions = {
  minHosts?: string;
  peerIps?: string;
  fromBackup?: string;
  passphraseFile?: string;
  rotateTokens?: boolean;
  rotateRootKey?: boolean;
  rotateSealingKey?: boolean;
  rotateAuthority?: boolean;
  domain?: string;
  dropDomain?: string;
  takeOver?: boolean;
};
type UpdateOptions = { bundle?: string; to?: string; stay: boolean; leaveAway: boolean };
type UninstallOptions = { keepImages: boolean; force: boolean };

export function addClusterCommands({ program }: CliContext): void {
  const env = (): Record<string, string | undefined> => ({
    ...process.env,
    FLYNN_STATE_DIR: program.opts<{ stateDir: string }>().stateDir,
  });
  program.version(versionOfThis(), '--version', 'the version of this machine’s programs');
  program
    .command('bootstrap')
    .description(
      'make this machine a cluster, or bring it up to date as a host of the one it is in; settings are variables',
    )
    .option('--min-hosts <n>', 'wait for so many hosts to join before the platform is started')
    .option('--peer-ips <a,b,c>', 'the addresses of all of them, this one too')
    .option('--from-backup <file>', 'the cluster that `flynn cluster backup` wrote to the file')
    .option('--passphrase-file <file>', 'of the backup; or FLYNN_BACKUP_PASSPHRASE')
    .option('--rotate-tokens', 'give the platform’s parts new tokens; both are good meanwhile')
    .option(
      '--rotate-root-key',
      'make the root key anew, and the tokens; both are good meanwhile, the former not after',
    )
    .option('--rotate-sealing-key', 'make anew what secrets are sealed under in the store; nothing stops meanwhile')
    .option(
      '--rotate-authority',
      'make anew who signs the certificates of hosts and parts; all trust both meanwhile, the former not after',
    )
    .option('--domain <domain>', 'move the cluster to another domain; it goes on answering at the one before')
    .option('--drop-domain <domain>', 'take away the routes at a former domain')
    .option('--take-over', 'keep the platform on this host from now on, in the place of the one that made the cluster')
    .action(async (options: BootstrapOptions) => {
      const { minHosts, peerIps, fromBackup, passphraseFile } = options;
      const formation = readFormation({
        ...(minHosts === undefined ? {} : { minHosts }),
        ...(peerIps === undefined ? {} : { peerIps }),
      });
      await goOn({
        env: env(),
        fromBackup,
        passphraseFile,
        rotation: rotationIn(options),
        domain: changeOf(options),
        takesOver: options.takeOver,
        ...(formation === undefined ? {} : { formation }),
      });
    });
  program
    .command('join')
    .description('make this machine a host of the cluster that the token is of')
    .argument('<token>', `as ${eitherCommand('token')} on its hosts prints it`)
    .option(
      '--behind-nat <network>',
      'a name for the private network it is in, where the hosts do not reach into; those of one network reach each other',
    )
    .action(async (token: string, { behindNat }: { behindNat?: string }) =>
      goOn({ env: env(), token, site: behindNat }),
    );
  program
    .command('token')
    .description('what other machines join this cluster with; good for a day')
    .action(async () => printToken(env()));
  program
    .command('update')
    .description(
      'move the whole cluster to another version, host by host, then the platform; what fails has it go back',
    )
    .option('--bundle <file>', 'of the version, for hosts that do not have it')
    .option('--to <version>', 'one that is installed already, such as the one before')
    .option('--stay', 'where it fails, leave it there', false)
    .option('--leave-away', 'also when hosts are away, or lack that version: they stay of the one they have', false)
    .action(async ({ bundle, to, stay, leaveAway }: UpdateOptions) => {
      const request = { env: env(), bundle, to, mayReturn: !stay, leavesAway: leaveAway };
      if (!(await interruptible((signal) => updateCluster({ ...request, signal })))) process.exitCode = 1;
    });
  // What the agent of the version before runs.
  program.command('refresh', { hidden: true }).action(async () => refreshHost(env()));
  program
    .command('uninstall')
    .description('take this machine out of its cluster and everything of flynn off it, and nothing else')
    .option('--keep-images', 'leave the images of the platform in the engine', false)
    .option('--force', 'also where other hosts need this one, or what is here alone is lost', false)
    .action(async ({ keepImages, force }: UninstallOptions) => {
      await takeDown({ env: env(), keepImages, isForced: force });
      if (isInstalled) await removeFiles(dirname(root));
    });
}

function rotationIn(options: BootstrapOptions): Rotation | undefined {
  const { rotateTokens, rotateRootKey, rotateSealingKey, rotateAuthority, domain, dropDomain, fromBackup, takeOver } =
    options;
  const given = {
    'rotate-tokens': rotateTokens === true,
    'rotate-root-key': rotateRootKey === true,
    'rotate-sealing-key': rotateSealingKey === true,
    'rotate-authority': rotateAuthority === true,
  };
  return rotationOf(given, {
    domain: domain !== undefined,
    'drop-domain': dropDomain !== undefined,
    'take-over': takeOver === true,
    'from-backup': fromBackup !== undefined,
  });
}

async function goOn(request: BringUp): Promise<void> {
  try {
    if (!(await bringUp(request))) process.exitCode = 1;
  } catch (error) {
    process.stderr.write(`\n${styleText('red', '✖')} ${messageOf(error)}\n\n${goOnText}\n`);
    process.exitCode = 1;
  }
}

/** By the script that put them there; not from below an agent, which could not be started any more. */
async function removeFiles(prefix: string): Promise<void> {
  const user = await userOf(prefix);
  if (user !== undefined) {
    process.stdout.write(`The programs in ${prefix} stay: ${user} is started from there.\n`);
    return;
  }
  const args = [join(root, 'bootstrap/install'), '--remove-files', '--prefix', prefix];
  process.exitCode = await new Promise<number>((resolve, reject) => {
    const child = spawn('sh', args, { stdio: 'inherit', cwd: '/' });
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}
