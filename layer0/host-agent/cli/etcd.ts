/** `flynn-host etcd …`: what has to be done to the cluster's store at night. */
import { silentLogger } from '@flynn/kit/log';
import type { CliContext } from './context.ts';

type Context = Pick<CliContext, 'program' | 'installation' | 'print'>;

export function addEtcdCommands({ program, installation, print }: Context): void {
  const etcd = program.command('etcd').description("the cluster's store");
  etcd
    .command('defragment')
    .description(
      'give room that etcd no longer needs back, member after member, and end the alarm of those that were full',
    )
    .action(async () => {
      // The etcd client takes half a second to load: no other command waits for it.
      const [{ defragmentEtcd }, { etcdOf }] = await Promise.all([
        import('@flynn/store/etcd-status'),
        import('../cluster/backup.ts'),
      ]);
      const access = await etcdOf(await installation());
      const { disarmed, failures } = await defragmentEtcd({
        ...access,
        signal: new AbortController().signal,
        onMember: (endpoint) => print(`defragmenting ${endpoint}\n`),
      });
      for (const failure of failures) print(`${failure}\n`);
      print(disarmed === 0 ? 'done\n' : 'done; etcd takes writes again\n');
      if (failures.length > 0) process.exitCode = 1;
    });
  etcd
    .command('replace')
    .description(
      'this host’s member, which does not start, was put back to an earlier day or differs from the others, by another, with all that those have',
    )
    .option('--yes', 'what this member has is erased', false)
    .action(async ({ yes }: { yes: boolean }) => {
      if (!yes) {
        print(`${beforeReplacement}\n`);
        process.exitCode = 2;
        return;
      }
      const [{ replaceMember }, { etcdOf }, { connectEtcd }] = await Promise.all([
        import('../cluster/lost-member.ts'),
        import('../cluster/backup.ts'),
        import('@flynn/store/etcd'),
      ]);
      const installed = await installation();
      const { endpoints, tls } = await etcdOf(installed);
      await using store = connectEtcd({ endpoints, ...(tls === undefined ? {} : { tls }), log: silentLogger() });
      const by = await replaceMember(store, installed.environment['FLYNN_HOST_ID'] ?? '', {
        tls,
        report: (line) => print(`${line}\n`),
        signal: new AbortController().signal,
      });
      print(
        by === 'this host'
          ? 'this host is a member of etcd again, with all that the others have\n'
          : 'another host is a member of etcd in the place of this one, with all that the others have\n',
      );
    });
  etcd
    .command('recover')
    .description(
      'after its majority is gone for good: the store anew, of what this host has, or of a snapshot, with this host as its only member',
    )
    .option(
      '--snapshot <file>',
      'of "flynn-host snapshot save", instead of what this host has; also where it had no member',
    )
    .option('--yes', 'the hosts that do not answer never come back with their disks', false)
    .action(async ({ snapshot, yes }: { snapshot?: string; yes: boolean }) => {
      if (!yes) {
        print(`${beforeRecovery}\n`);
        process.exitCode = 2;
        return;
      }
      const { recoverStore } = await import('../cluster/recovery.ts');
      const givenUp = await recoverStore({
        installation: await installation(),
        snapshot,
        report: (line) => print(`${line}\n`),
        signal: new AbortController().signal,
      });
      print(`etcd answers again, with this host as its only member. ${afterRecovery(givenUp)}\n`);
    });
}

const beforeReplacement = `This host's member of etcd is erased, and the host becomes another one, with all that the others have, unless a host without
a member joined the cluster before it: then that one does. Its jobs run on.

Do it when the member does not start (docker logs, of the container that ends with resident-etcd, says why): its data is
damaged, or this machine was put back to an earlier day; or when "flynn-host doctor" says that its data differs from that of the
others (alarm CORRUPT), which ends the alarm as well. The others have to be a majority without it. Where several
machines were put back at once: not before the one that is ahead has been looked at; flynn-host snapshot save there.

  flynn-host etcd replace --yes`;

const beforeRecovery = `The store is made anew of what this host has, and members on other hosts are given up. What was written last and had
not reached this host is lost.

Do it only when the others never come back with their disks: two of them together would go on as the store they were. And not
because this host alone cannot reach them: then they go on without it. Bringing one of them back, so that the majority is
there again, loses nothing and needs no command.

  flynn-host etcd recover --yes`;

function afterRecovery(givenUp: readonly string[]): string {
  const others = `Given up: ${givenUp.join(', ')}. Hosts that are gone for good: flynn host remove HOST --yes; one that is set up anew joins by a token`;
  return `${givenUp.length === 0 ? '' : `${others}. `}Others join the store again by themselves.`;
}
