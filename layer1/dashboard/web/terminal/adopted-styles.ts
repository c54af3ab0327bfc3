/**
 * xterm writes its colours into `<style>` elements, which a page that allows no inline styles does not heed. A sheet that a script
 * makes is none: what stands in those elements is put into one.
 */
export function adoptStyles(root: HTMLElement): () => void {
  const sheet = new CSSStyleSheet();
  const adopt = () => {
    const texts = [...root.querySelectorAll('style')].map(({ textContent }) => textContent ?? '');
    sheet.replaceSync(texts.join('\n'));
  };
  const changes = new MutationObserver(adopt);
  changes.observe(root, { childList: true, subtree: true, characterData: true });
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  adopt();
  return () => {
    changes.disconnect();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((known) => known !== sheet);
  };
}
