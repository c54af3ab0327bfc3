import type { Command } from 'commander';
import { certificates } from '@flynn/controller/certificates/api';
import type { Certificate } from '@flynn/controller/certificates/model';
import { usageError } from '../arguments.ts';
import { readNamed } from '../input-file.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

/** `flynn route cert …`, under `route`. */
export function addCertificateCommands(parent: Parent, route: Command): void {
  const cert = addCommand(parent, {
    under: route,
    name: 'cert',
    summary: 'certificates of host names: own ones, and those that come from an authority by themselves',
    async run(context) {
      const client = await context.client();
      const found = await client.call(certificates.list, {});
      context.show(found, () =>
        formatTable(
          ['DOMAINS', 'SOURCE', 'EXPIRES', 'STATE', 'WHY'],
          found.map((one) => [one.domains.join(','), one.source, one.notAfter?.slice(0, 10), one.state, whyOf(one)]),
        ),
      );
    },
  });

  addCommand<{ cert?: string; key?: string }>(parent, {
    under: cert,
    name: 'add',
    summary: 'serve a certificate of your own; one there already is replaced at once',
    arguments: [['<domains...>', 'example.com, or *.example.com']],
    options: {
      cert: ['--cert <file>', 'PEM: the certificate, then those that signed it (- for standard input)'],
      key: ['--key <file>', 'PEM: its private key, not encrypted'],
    },
    async run(context, options, domains) {
      const { cert: certificateFile, key: keyFile } = options;
      if (certificateFile === undefined || keyFile === undefined) {
        throw usageError('both files are needed: flynn route cert add example.com --cert FILE --key FILE');
      }
      if (certificateFile === '-' && keyFile === '-') {
        throw usageError('standard input is one file only: name the other');
      }
      const certificate = await readNamed(context.io, certificateFile);
      const privateKey = await readNamed(context.io, keyFile);
      const client = await context.client();
      const added = await client.call(certificates.add, { body: { domains, certificate, privateKey } });
      const until = added.notAfter === undefined ? '' : ` until ${added.notAfter.slice(0, 10)}`;
      const why = added.why === '' ? '' : `\nnote: ${added.why}`;
      context.show(added, () => `${added.domains.join(', ')} served with it${until}${why}`);
    },
  });

  addCommand(parent, {
    under: cert,
    name: 'remove',
    summary: 'serve a certificate no longer',
    arguments: [['<domain>', 'the first name "flynn route cert" shows']],
    async run(context, _options, [domain = '']) {
      const client = await context.client();
      await client.call(certificates.remove, { params: { certificate: domain } });
      context.show({ removed: domain }, () => `certificate for ${domain} removed`);
    },
  });
}

function whyOf({ why, nextTryAt }: Certificate): string {
  return nextTryAt === undefined ? why : `${why}; next try ${nextTryAt.slice(0, 16).replace('T', ' ')} UTC`;
}
