/** `flynn redis`: the platform's own Redis, as people use it. */
import { redisKind } from '../datastores/kinds.ts';
import { resource, type Target } from '../datastores/target.ts';
import { addCommand, type Parent } from './command.ts';
import { addDatastoreCommands, startConsole } from './datastore.ts';

const words = {
  dump: 'all that is in it as one file, as Redis saves it (RDB)',
  dumpExamples: ['flynn redis dump -a shop', 'flynn redis dump -a shop -o - > shop.rdb'],
  restore: 'a dump',
  restoreFile: 'what "flynn redis dump", or SAVE of a Redis up to 7.2, wrote',
  restoreExamples: [
    'flynn redis restore shop.rdb -a shop',
    'flynn redis restore - -y -a shop < /var/lib/redis/dump.rdb',
  ],
};

export function addRedisCommands(parent: Parent): void {
  addDatastoreCommands(parent, redisKind, {
    words,
    addOwn(under) {
      addCommand<Target & { superuser?: boolean }>(parent, {
        under,
        name: 'cli',
        summary: "valkey-cli on the primary, in a terminal or fed through a pipe; its exit code is this command's",
        arguments: [['[args...]', 'a command of Redis, or what valkey-cli takes, behind --']],
        passesThrough: true,
        options: {
          resource,
          superuser: ['--superuser', 'as an admin of the cluster: not as its apps, but as one above'],
        },
        examples: [
          'flynn redis cli -a shop',
          'flynn redis cli -a shop -- GET greeting',
          'flynn redis cli -a shop < commands',
        ],
        run: (context, { resource: named, superuser = false }, args) =>
          startConsole(context, redisKind, { named, args, isSuperuser: superuser }),
      });
    },
  });
}
