import { providers } from '@flynn/controller/providers/api';
import type { Context } from '../context.ts';
import { readNamed } from '../input-file.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addProviderCommands(parent: Parent): void {
  const provider = addCommand(parent, {
    name: 'provider',
    summary: 'where resources for apps come from, like databases',
    lists: true,
    async run(context: Context) {
      const client = await context.client();
      const found = await client.call(providers.list, {});
      context.show(found, () =>
        formatTable(
          ['NAME', 'ID', 'URL', 'TOKEN', 'CREATED'],
          found.map(({ name, id, url, hasToken, createdAt }) => [
            name,
            id,
            url,
            hasToken ? 'yes' : 'no',
            formatAge(createdAt, Date.now()),
          ]),
        ),
      );
    },
  });

  addCommand<{ tokenFile?: string }>(parent, {
    under: provider,
    name: 'add',
    summary: 'have resources from a provider that speaks HTTP, as docs/resources.md says',
    arguments: [
      ['<name>', 'what it is called here'],
      ['<url>', 'https://, or http:// to a name of the cluster: http://NAME.flynn/PATH'],
    ],
    options: { tokenFile: ['--token-file <file>', 'what it is shown as a bearer token, - for standard input'] },
    async run(context, { tokenFile }, [name = '', url = '']) {
      const token = tokenFile === undefined ? {} : { token: (await readNamed(context.io, tokenFile)).trim() };
      const client = await context.client();
      const added = await client.call(providers.create, { body: { name, url, ...token } });
      context.show(added, () => `Created provider ${added.name}.`);
    },
  });

  addCommand(parent, {
    under: provider,
    name: 'remove',
    summary: 'have nothing from it any more; refused while there are resources of it',
    arguments: [['<name>', 'as "flynn provider" shows it']],
    async run(context, _options, [name = '']) {
      const client = await context.client();
      await client.call(providers.remove, { params: { provider: name } });
      context.show({ removed: name }, () => `Removed provider ${name}.`);
    },
  });
}
