/** What is told once a machine is a host: what to type next. */
import { styleText } from 'node:util';
import { type Cluster as KnownCluster, loadClusters } from '@flynn/cli/clusters/clusters';
import { silentLogger } from '@flynn/kit/log';
import { addLine, fingerprintText } from '../cli/add-line.ts';
import { formerDomainsOf } from '../domain/domain.ts';
import { domainText, recordsText } from '../domain/text.ts';
import { appUrlOf } from '../domain/urls.ts';
import { commands, isInstalled } from '../origin.ts';
import { withStore } from '../platform/controller.ts';
import { doorAddresses } from '../platform/doors.ts';
import { sampleName } from '../platform/sample-app.ts';
import { rootKeyNews, told } from '../rotation/rotation.ts';
import type { Cluster } from '../settings.ts';
import { readCluster } from '../state.ts';
import { writeHostFiles } from '../steps/host.ts';
import type { Context } from '../steps/step.ts';

/** A change of the root key ends with it: whoever is cut off before is told the new one by the next `up`. */
export async function sayFarewell({ options, cluster: begun, person }: Context): Promise<void> {
  const stateDir = options.FLYNN_STATE_DIR;
  // As the steps left it.
  const cluster = (await readCluster(stateDir)) ?? begun;
  const news = rootKeyNews(cluster);
  const { clusters } = await loadClusters(person.configDir);
  process.stdout.write(farewell(cluster, news, clusters));
  const isMoved = formerDomainsOf(cluster).length > 0;
  if (isMoved || news === 'first') {
    const addresses = await withStore({ stateDir, cluster, log: silentLogger() }, doorAddresses);
    process.stdout.write(isMoved ? domainText(cluster, addresses, clusters) : recordsText(cluster, addresses));
  }
  if (news !== 'known') await writeHostFiles(stateDir, told(cluster));
}

/** The root key is shown when it is made, and not again. */
export function farewell(
  cluster: Cluster,
  rootKey: 'first' | 'new' | 'known',
  known: readonly KnownCluster[] = [],
): string {
  const url = appUrlOf(sampleName, cluster);
  const command = (text: string): string => `  ${styleText('bold', text)}\n`;
  const sample =
    cluster.sample === 'gone'
      ? '\nThe cluster is up.\n'
      : `\nThe cluster is up, and the sample app is live at ${styleText('cyan', url)}\n\n${command(`curl ${url}`)}`;
  return [
    sample,
    '\nNext, in the folder of an app of yours (a git repository; docs/builds.md tells which languages build):\n\n',
    command('flynn create my-app'),
    command('git push flynn main'),
    command('flynn scale web=3'),
    command('flynn log -f'),
    '\nThe cluster has a web page. This opens it, and logs in:\n\n',
    command('flynn dashboard'),
    ...(rootKey === 'new'
      ? [
          '\nThe root key is made anew, and the former one opens nothing any more. This machine’s flynn command has the new one, unless it goes by a token of somebody; on other hosts of the cluster this gives it to theirs:\n\n',
          command(commands.up),
        ]
      : []),
    ...(rootKey === 'known'
      ? []
      : [
          `\nFrom another computer you reach the cluster with its ${rootKey === 'new' ? 'new ' : ''}root key, which is shown this once: keep it as you keep a password.\n\n`,
          command(addLine(cluster, known)),
        ]),
    ...(rootKey === 'known' ? [fingerprintText(cluster)] : []),
    '\nFor everybody else there is a user, with a role on the cluster or on single apps, and a line of their own:\n\n',
    command('flynn user add NAME --role developer'),
    '\nAnother machine becomes a host of this cluster with the token that the first of these prints, here:\n\n',
    command(commands.token),
    command(commands.join),
    `\n${isInstalled ? '' : `flynn is ${styleText('bold', 'bin/flynn')} in this repository: link it into your PATH. `}${commands.down} takes everything away again.\n`,
  ].join('');
}

export function joinedFarewell(cluster: Cluster): string {
  return `\nThis machine is host ${styleText('bold', cluster.hostId)} of the cluster ${cluster.name}: work is placed here from now on.\n\n  ${styleText('bold', 'flynn host list')}\n\n${commands.down} takes it out again.\n`;
}
