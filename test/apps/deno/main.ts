import isNumber from 'is-number';

const built = await Deno.readTextFile('built.txt');

const server = Deno.serve(
  { port: Number(Deno.env.get('PORT') ?? 8000) },
  () => new Response(`Hello from Deno ${Deno.version.deno}: built ${built}, ${isNumber('7') ? 'with' : 'without'} its packages\n`),
);

Deno.addSignalListener('SIGTERM', () => void server.shutdown().then(() => Deno.exit(0)));
