// Colors of the page around us, as numbers for what is drawn pixel by pixel.

/** @returns {background, faint: what steps back, plain: what has no color of its own, strong: the same where it stands out} */
export function themeOf(element) {
  const style = getComputedStyle(element);
  const [ink, background] = [rgbOf(style.color, [29, 35, 48]), rgbOf(style.backgroundColor, [255, 255, 255])];
  const mixed = (share) => background.map((value, band) => Math.round(value + share * (ink[band] - value)));
  return { background, faint: mixed(0.15), plain: mixed(0.42), strong: mixed(0.72) };
}

function rgbOf(color, fallback) {
  const found = /^rgba?\((\d+), (\d+), (\d+)/.exec(color);
  return found && color !== "rgba(0, 0, 0, 0)" ? found.slice(1).map(Number) : fallback;
}
