/** What S3 answers: elements without attributes that mean anything, each value in an element of its own. */

const entities: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };

/** The contents of all elements of that name, inner elements as they are; none of them has itself inside. */
export function valuesIn(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}(?:\\s[^>]*)?>([^]*?)</${name}>`, 'g'))].map(([, inner = '']) => inner);
}

/** The text of the first. */
export function valueIn(xml: string, name: string): string | undefined {
  return valuesIn(xml, name)[0]?.replaceAll(/&(?:#x([\da-f]+)|#(\d+)|(\w+));/gi, (whole, hex, decimal, named) => {
    if (hex !== undefined) return String.fromCodePoint(Number.parseInt(String(hex), 16));
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    return entities[String(named)] ?? whole;
  });
}
